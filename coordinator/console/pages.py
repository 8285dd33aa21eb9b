"""Templates to responses: one Jinja environment, one set of security headers, one way to leave a message."""

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import jinja2
import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from coordinator.accounts.people import Person
from coordinator.api.context import Services
from coordinator.console import words
from coordinator.console.assets import BUILD, asset_url
from worker_core.wire.problems import Problem

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
PAGE_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
MESSAGE_COOKIE = "stoker_message"
THEME_COOKIE = "stoker_theme"
REGION_HEADER = "stoker-region"
"""Sent by scripts that fetch a part of a page: the message is for the page a person looks at."""
THEMES = ("auto", "light", "dark")
Tone = Literal["good", "warn", "bad"]


class Notice(msgspec.Struct, frozen=True):
    """A message for the next page: what was done, or why it was not."""

    tone: Tone
    text: str


@dataclass(frozen=True)
class Visit:
    """A request by a signed-in person."""

    request: Request
    services: Services
    person: Person

    @property
    def now(self) -> float:
        """The coordinator's time."""
        return self.services.clock.now()


def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    names: dict[str, object] = {"asset": asset_url, "build": BUILD, "new_request_id": lambda: uuid.uuid4().hex}
    cast("dict[str, object]", environment.globals).update(names)
    said: dict[str, object] = {
        "number": words.number_words,
        "count": words.count_words,
        "size": words.size_words,
        "percent": words.percent_words,
        "duration": words.duration_words,
        "age": words.age_words,
        "day": words.day_words,
        "detail": words.detail_words,
        "moment": words.moment,
        "sentence": words.sentence,
        "reason": words.reason_words,
        "gpu": words.gpu_words,
        "device": words.device_words,
        "worker_status": words.worker_status,
        "job_status": words.job_status,
        "unconfirmed": words.unconfirmed,
        "expiry_tone": words.expiry_tone,
    }
    cast("dict[str, object]", environment.filters).update(said)
    return environment


ENVIRONMENT = _environment()


def render(
    request: Request, template: str, context: Mapping[str, object], *, person: Person | None, status: int = 200
) -> Response:
    """Render a page; ``context`` are the template's own values."""
    notice = _take_notice(request)
    shared = {
        "person": person,
        "csrf_token": person.csrf if person else "",
        "path": request.url.path,
        "theme": theme_of(request),
        "notice": notice,
        "now": request.app.state.services.clock.now(),
    }
    html = ENVIRONMENT.get_template(template).render({**shared, **context})
    response = HTMLResponse(html, status_code=status, headers=PAGE_HEADERS)
    if notice is not None:
        response.delete_cookie(MESSAGE_COOKIE, httponly=True, samesite="lax")
    return response


def show(visit: Visit, template: str, status: int = 200, /, **context: object) -> Response:
    """Render a page for a signed-in person."""
    return render(visit.request, template, context, person=visit.person, status=status)


def go(path: str, notice: Notice | None = None) -> Response:
    """Answer a form with 303, so that reloading the next page repeats nothing."""
    response = RedirectResponse(path, status_code=303, headers={"cache-control": "no-store"})
    if notice is not None:
        value = base64.urlsafe_b64encode(msgspec.json.encode(notice)).decode()
        response.set_cookie(MESSAGE_COOKIE, value, max_age=60, httponly=True, samesite="lax")
    return response


def problem_page(request: Request, problem: Problem, person: Person | None) -> Response:
    """Render a problem as a page: what happened, why, and where to go on."""
    return render(request, "problem.html", {"problem": problem}, person=person, status=problem.status)


def error_page(request: Request, problem: Problem) -> Response:
    """Render a problem for whoever asked for a page, signed in or not."""
    return problem_page(request, problem, None)


def theme_of(request: Request) -> str:
    """Return the theme the person chose: ``auto``, ``light`` or ``dark``."""
    theme = request.cookies.get(THEME_COOKIE, "auto")
    return theme if theme in THEMES else "auto"


def local_path(text: str | None, otherwise: str = "/workers") -> str:
    """Return ``text`` if it is a path of this site, so that a form cannot send a person elsewhere."""
    if text and text.startswith("/") and not text.startswith("//") and "\\" not in text and text.isprintable():
        return text
    return otherwise


def _take_notice(request: Request) -> Notice | None:
    value = request.cookies.get(MESSAGE_COOKIE)
    if not value or REGION_HEADER in request.headers:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(value), type=Notice)
    except (ValueError, msgspec.DecodeError):
        return None
