"""Jobs: the list with its filters, one job, and the forms that submit, cancel and retry."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlencode

from starlette.responses import Response

from coordinator.console.doors import Form, form, page
from coordinator.console.pages import Notice, Visit, go, local_path, show
from coordinator.console.words import JOB_STATES, between
from worker_core.wire.client import JobSubmit, JobView
from worker_core.wire.problems import FieldError, ProblemError
from worker_core.wire.spec import BadSpec, canonical_text, parse_spec
from worker_core.wire.vocabulary import JOB_END_STATES

FILTERS = ("queued", "running", "canceling", "succeeded", "failed", "canceled")
PAGE_LENGTH = 50
SAMPLE = """\
# A short one: balances a pole on a cart, about half a minute on two cores.
kind = "rl-session"
name = "cartpole"
seed = 1

[system.simulator]
entry = "gymnasium:CartPole-v1"

[training]
cycles = 13
simulators = 8
"""


class NotASpec(Exception):
    """Text that is neither JSON nor TOML; the message says where it stops making sense."""


def read_spec_text(text: str) -> Mapping[str, object]:
    """Return the spec written as JSON or TOML; raises :class:`NotASpec`."""
    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise NotASpec(f"This is not valid JSON: {error}") from error
    else:
        try:
            value = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise NotASpec(f"This is not valid TOML: {error}") from error
    if not isinstance(value, dict) or not value:
        raise NotASpec("The spec is empty. Start from the sample.")
    return cast("dict[str, object]", value)


def filter_links(counts: Mapping[str, int], chosen: str | None, base: str) -> list[dict[str, object]]:
    """Return the links that show jobs of one state, with how many there are."""
    links: list[dict[str, object]] = [
        {"key": "", "word": "All", "href": base, "count": sum(counts.values()), "current": chosen is None}
    ]
    for state in FILTERS:
        href = f"{base}?{urlencode({'state': state})}"
        word = JOB_STATES[state].word.capitalize()
        links.append(
            {"key": state, "word": word, "href": href, "count": counts.get(state, 0), "current": chosen == state}
        )
    return links


def job_row(job: JobView, now: float) -> dict[str, object]:
    """Return a job with what the pages work out from it."""
    return {
        "job": job,
        "duration_s": between(job.started_at, job.ended_at, now),
        "can_cancel": job.state in ("queued", "running"),
        "can_retry": job.state in JOB_END_STATES and job.state != "succeeded",
    }


async def _list(visit: Visit) -> Response:
    query = visit.request.query_params
    state = query.get("state") if query.get("state") in FILTERS else None
    account = visit.person.account_id
    listing = await visit.services.queue.jobs.list(account, state=state, limit=PAGE_LENGTH, cursor=query.get("after"))
    counts = await visit.services.queue.jobs.counts(account)
    older = {"after": listing.next, **({"state": state} if state else {})} if listing.next else None
    return show(
        visit,
        "jobs.html",
        rows=[job_row(job, visit.now) for job in listing.items],
        links=filter_links(counts, state, "/jobs"),
        total=sum(counts.values()),
        running=counts.get("running", 0),
        older=f"/jobs?{urlencode(older)}" if older else None,
        here=f"/jobs?{visit.request.url.query}" if visit.request.url.query else "/jobs",
    )


async def _show(visit: Visit) -> Response:
    job = await visit.services.queue.jobs.show(visit.person.account_id, visit.request.path_params["job_id"])
    return show(visit, "job.html", **job_row(job, visit.now))


def _submit_page(visit: Visit, text: str, errors: Sequence[FieldError], status: int = 200) -> Response:
    return show(visit, "job_new.html", status, text=text, errors=errors, sample=SAMPLE)


async def _new(visit: Visit) -> Response:
    return _submit_page(visit, SAMPLE, ())


async def _submit(visit: Visit, posted: Form) -> Response:
    text = posted.text("spec").replace("\r\n", "\n")
    try:
        raw = read_spec_text(text)
        parse_spec(raw)
        submitted = await visit.services.queue.jobs.submit(
            visit.person.account_id,
            JobSubmit(spec=canonical_text(cast("dict[str, Any]", raw))),
            by=visit.person.email,
            idempotency_key=posted.act_id,
        )
    except NotASpec as error:
        return _submit_page(visit, text, [FieldError(field="spec", message=str(error))], 422)
    except BadSpec as error:
        return _submit_page(visit, text, error.errors, 422)
    except ProblemError as error:
        if error.code != "bad-spec":
            raise
        found = error.problem.errors or (FieldError(field="spec", message=str(error)),)
        return _submit_page(visit, text, found, 422)
    return go(f"/jobs/{submitted.job_id}", Notice("good", "The job is in the queue."))


async def _cancel(visit: Visit, posted: Form) -> Response:
    job_id = visit.request.path_params["job_id"]
    job = await visit.services.queue.jobs.cancel(visit.person.account_id, job_id, by=visit.person.email)
    said = "is canceled" if job.state == "canceled" else "is asked to stop; it ends when its worker confirms"
    return go(local_path(posted.text("back"), f"/jobs/{job_id}"), Notice("good", f"{job.name} {said}."))


async def _retry(visit: Visit, posted: Form) -> Response:
    job_id = visit.request.path_params["job_id"]
    start = "scratch" if posted.text("start") == "scratch" else "checkpoint"
    job = await visit.services.queue.jobs.retry(
        visit.person.account_id, job_id, by=visit.person.email, start=start, idempotency_key=posted.act_id
    )
    return go(f"/jobs/{job_id}", Notice("good", f"{job.name} is in the queue again."))


jobs_page = page(_list)
job_page = page(_show)
new_job_page = page(_new)
submit = form(_submit, back="/jobs/new")
cancel = form(_cancel, back="/jobs")
retry = form(_retry, back="/jobs")
