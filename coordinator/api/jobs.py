"""Jobs over HTTP, for people and their scripts: submit, list, follow, cancel, try again."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.api.auth import require_person
from coordinator.api.bodies import answer, read_message
from coordinator.api.context import services_of
from coordinator.api.queries import number
from coordinator.queue.jobs import JobService
from worker_core.wire.client import JobSubmit, RetryRequest

LARGEST_SPEC_BYTES = 2 << 20


async def submit(request: Request) -> Response:
    """Queue a job."""
    person = await require_person(request)
    body = await read_message(request, JobSubmit, max_bytes=LARGEST_SPEC_BYTES)
    key = request.headers.get("idempotency-key")
    return answer(await _jobs(request).submit(person.account_id, body, by=person.email, idempotency_key=key), 201)


async def list_jobs(request: Request) -> Response:
    """Return jobs, newest first."""
    person = await require_person(request)
    query = request.query_params
    page = await _jobs(request).list(
        person.account_id,
        state=query.get("state"),
        kind=query.get("kind"),
        limit=number(query, "limit", 50),
        cursor=query.get("after"),
    )
    return answer(page)


async def show(request: Request) -> Response:
    """Return one job."""
    person = await require_person(request)
    return answer(await _jobs(request).show(person.account_id, _job(request)))


async def cancel(request: Request) -> Response:
    """Cancel a job."""
    person = await require_person(request)
    return answer(await _jobs(request).cancel(person.account_id, _job(request), by=person.email))


async def retry(request: Request) -> Response:
    """Queue an ended job again."""
    person = await require_person(request)
    body = await read_message(request, RetryRequest)
    key = request.headers.get("idempotency-key")
    retried = _jobs(request).retry(
        person.account_id, _job(request), by=person.email, start=body.start, idempotency_key=key
    )
    return answer(await retried)


async def artifacts(request: Request) -> Response:
    """Return what a job was given and has produced."""
    person = await require_person(request)
    return answer({"items": await _jobs(request).artifacts(person.account_id, _job(request)), "next": None})


async def metrics(request: Request) -> Response:
    """Return raw points after a cursor, or one metric (``key``) summed up to ``points`` buckets, or all at a glance."""
    person = await require_person(request)
    query, jobs = request.query_params, _jobs(request)
    if "key" in query and "points" in query:
        buckets = number(query, "points", 800)
        return answer(await jobs.series(person.account_id, _job(request), query["key"], buckets=buckets))
    limit = number(query, "limit", 1000)
    after, name = query.get("after"), query.get("key")
    return answer(await jobs.points(person.account_id, _job(request), name=name, after=after, limit=limit))


async def metric_names(request: Request) -> Response:
    """Return every metric of a job at a glance."""
    person = await require_person(request)
    return answer({"items": await _jobs(request).metric_heads(person.account_id, _job(request)), "next": None})


async def logs(request: Request) -> Response:
    """Return log lines after a cursor, or the last ones with ``tail``."""
    person = await require_person(request)
    query, jobs = request.query_params, _jobs(request)
    if "tail" in query:
        limit = number(query, "tail", 2000)
        return answer(await jobs.log_tail(person.account_id, _job(request), limit, query.get("before")))
    limit = number(query, "limit", 2000)
    return answer(await jobs.log_after(person.account_id, _job(request), query.get("after"), limit))


async def events(request: Request) -> Response:
    """Return the events of one attempt."""
    person = await require_person(request)
    query = request.query_params
    after = number(query, "after_seq", -1)
    found = await _jobs(request).events(
        person.account_id, request.path_params["attempt"], after, number(query, "limit", 500)
    )
    return answer({"items": found, "next": found[-1].seq if found else after})


def _jobs(request: Request) -> JobService:
    return services_of(request).queue.jobs


def _job(request: Request) -> str:
    return request.path_params["job"]


routes = [
    Route("/v1/jobs", submit, methods=["POST"]),
    Route("/v1/jobs", list_jobs, methods=["GET"]),
    Route("/v1/jobs/{job}", show, methods=["GET"]),
    Route("/v1/jobs/{job}/cancel", cancel, methods=["POST"]),
    Route("/v1/jobs/{job}/retry", retry, methods=["POST"]),
    Route("/v1/jobs/{job}/artifacts", artifacts, methods=["GET"]),
    Route("/v1/jobs/{job}/metrics", metrics, methods=["GET"]),
    Route("/v1/jobs/{job}/metrics/names", metric_names, methods=["GET"]),
    Route("/v1/jobs/{job}/logs", logs, methods=["GET"]),
    Route("/v1/attempts/{attempt}/events", events, methods=["GET"]),
]
