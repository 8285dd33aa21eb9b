"""What stands before each page and each form: who asks, the CSRF token, the password again, and acting once."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from coordinator.api.auth import check_csrf, client_ip, current_person
from coordinator.api.bodies import read_bytes
from coordinator.api.context import services_of
from coordinator.console.pages import Notice, Visit, go, local_path, problem_page, show
from coordinator.console.words import sentence
from worker_core.wire.problems import ProblemError, problem

MAX_FORM_FIELDS = 64
MAX_FORM_BYTES = 4 << 20
REMEMBERED_REQUESTS = 1024
STEP_UP_FIELD = "step_up_password"
CSRF_FIELD = "csrf_token"
PROOF_FIELDS = (STEP_UP_FIELD, CSRF_FIELD)
BACK_TO_PAGE = {"wrong-state", "changed-meanwhile", "already-decided", "pairing-expired", "not-found"}

Key = tuple[str, str, str]
"""Whose form it is, where it was sent, and what it asks for."""
Endpoint = Callable[[Request], Awaitable[Response]]
PageHandler = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True)
class Form:
    """The fields of a posted form."""

    fields: Mapping[str, tuple[str, ...]]

    def text(self, name: str, otherwise: str = "") -> str:
        """Return the first value of a field."""
        values = self.fields.get(name)
        return values[0] if values else otherwise

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a field, as ticked boxes send it."""
        return self.fields.get(name, ())

    def ticked(self, name: str) -> bool:
        """Return whether a box is ticked."""
        return bool(self.fields.get(name))

    @property
    def act_id(self) -> str | None:
        """The id of what this form asks for: sent twice it is one act, but filled in anew it is another."""
        if not self.text("request_id"):
            return None
        asked = sorted((name, values) for name, values in self.fields.items() if name not in PROOF_FIELDS)
        return hashlib.sha256(repr(asked).encode()).hexdigest()


FormHandler = Callable[[Visit, Form], Awaitable[Response]]


async def read_form(request: Request, max_bytes: int = MAX_FORM_BYTES) -> Form:
    """Read a form of text fields, under the limits of every body: its size and the time it may take."""
    body = await read_bytes(request, max_bytes)
    try:
        posted = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
    except ValueError as error:
        raise problem("too-large", f"A form has at most {MAX_FORM_FIELDS} fields.") from error
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in posted:
        fields[name] = (*fields.get(name, ()), value)
    return Form(fields)


def sign_in_first(request: Request) -> Response:
    """Send to the log-in page, and back afterwards where that is a page to look at."""
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method not in ("GET", "HEAD"):
        target = "/workers"
    return RedirectResponse(f"/login?next={quote(target, safe='/')}", status_code=303)


def page(handler: PageHandler) -> Endpoint:
    """Make an endpoint that shows something to a signed-in person."""

    async def endpoint(request: Request) -> Response:
        person = await current_person(request)
        if person is None:
            return sign_in_first(request)
        try:
            return await handler(Visit(request, services_of(request), person))
        except ProblemError as error:
            return problem_page(request, error.problem, person)

    return endpoint


def form(handler: FormHandler, *, step_up: bool = False, back: str = "/workers") -> Endpoint:
    """Make an endpoint that takes a form of a signed-in person; ``back`` is where a refusal is shown."""

    async def endpoint(request: Request) -> Response:
        person = await current_person(request)
        if person is None:
            return sign_in_first(request)
        visit, posted = Visit(request, services_of(request), person), Form({})
        try:
            posted = await read_form(request)
            check_csrf(request, person, posted.text(CSRF_FIELD))
            if step_up and not person.stepped_up:
                asked = await _password_again(visit, posted)
                if asked is not None:
                    return asked
                visit = replace(visit, person=replace(person, stepped_up=True))
            return await _once(visit, posted, handler)
        except ProblemError as error:
            if error.code in BACK_TO_PAGE:
                said = sentence(error.problem.detail or error.problem.title)
                return go(local_path(posted.text("back"), back), Notice("bad", said))
            return problem_page(request, error.problem, person)

    return endpoint


async def _password_again(visit: Visit, posted: Form) -> Response | None:
    """Take the password that came with the form, or show the page that asks for it and keeps the form."""
    password, wrong = posted.text(STEP_UP_FIELD), ""
    if password:
        try:
            await visit.services.logins.step_up(visit.person, password, client_ip(visit.request))
        except ProblemError as error:
            wrong = "That is not your password." if error.code == "bad-credentials" else sentence(str(error))
        else:
            return None
    kept = [(name, value) for name, values in posted.fields.items() if name not in PROOF_FIELDS for value in values]
    return show(visit, "step_up.html", kept=kept, action=visit.request.url.path, wrong=wrong)


@dataclass
class ActedOnce:
    """Answers of the forms that acted lately, so that the second click of a double click gets the first's answer."""

    answers: OrderedDict[Key, asyncio.Future[Response]] = field(
        default_factory=OrderedDict[Key, asyncio.Future[Response]]
    )

    def begin(self, key: Key) -> asyncio.Future[Response]:
        """Reserve the answer of ``key``, forgetting the oldest when there are too many."""
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.answers[key] = future
        while len(self.answers) > REMEMBERED_REQUESTS:
            self.answers.popitem(last=False)
        return future


def _memory(visit: Visit) -> ActedOnce:
    state = visit.request.app.state
    if not hasattr(state, "console_acted"):
        state.console_acted = ActedOnce()
    return state.console_acted


async def _once(visit: Visit, posted: Form, handler: FormHandler) -> Response:
    if posted.act_id is None:
        return await handler(visit, posted)
    memory = _memory(visit)
    key = (visit.person.account_id, visit.request.url.path, posted.act_id)
    earlier = memory.answers.get(key)
    if earlier is not None:
        return await asyncio.shield(earlier)
    future = memory.begin(key)
    try:
        answer = await handler(visit, posted)
    except Exception as error:
        memory.answers.pop(key, None)
        future.set_exception(error)
        future.exception()  # it is raised here; whoever else waits for it gets it too
        raise
    except asyncio.CancelledError:
        memory.answers.pop(key, None)
        future.cancel()
        raise
    future.set_result(answer)
    if answer.status_code != 303:
        memory.answers.pop(key, None)
    return answer
