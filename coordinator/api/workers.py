"""Workers over HTTP, for people and their scripts."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.api.auth import require_person
from coordinator.api.bodies import answer, no_content, read_message
from coordinator.api.context import services_of
from worker_core.wire.client import ModeRequest, RenewRequest, WorkerPatch
from worker_core.wire.problems import problem
from worker_core.wire.vocabulary import Mode

SCOPE = "workers"


async def list_workers(request: Request) -> Response:
    """Return all workers of the account."""
    person = await require_person(request, SCOPE)
    views = await services_of(request).workers.list(person.account_id)
    return answer({"items": views, "next": None})


async def show(request: Request) -> Response:
    """Return one worker; its revision is the ETag."""
    person = await require_person(request, SCOPE)
    view = await services_of(request).workers.get(person.account_id, request.path_params["worker"])
    return answer(view, headers={"ETag": f'"{view.rev}"'})


async def patch(request: Request) -> Response:
    """Change a worker of the revision named by If-Match."""
    person = await require_person(request, SCOPE)
    changes = await read_message(request, WorkerPatch)
    seen = request.headers.get("if-match", "").strip().strip('"')
    if not (seen.isascii() and seen.isdecimal() and len(seen) <= 18):
        raise problem("invalid-request", "send If-Match with the rev of the worker you saw")
    return answer(await services_of(request).workers.patch(person, request.path_params["worker"], changes, int(seen)))


async def set_mode(request: Request) -> Response:
    """Drain, stop or resume."""
    person = await require_person(request, SCOPE)
    message = await read_message(request, ModeRequest)
    mode = _MODES[request.url.path.rsplit("/", 1)[-1]]
    workers = services_of(request).workers
    return answer(await workers.set_mode(person, request.path_params["worker"], mode, message.reason))


async def renew(request: Request) -> Response:
    """Authorize from now on."""
    person = await require_person(request, "approve", step_up=True)
    message = await read_message(request, RenewRequest)
    workers = services_of(request).workers
    return answer(await workers.renew(person, request.path_params["worker"], message.authorization_s))


async def keep(request: Request) -> Response:
    """End a conflict in favour of the machine that is connected."""
    person = await require_person(request, "approve", step_up=True)
    return answer(await services_of(request).held.keep(person, request.path_params["worker"]))


async def confirm(request: Request) -> Response:
    """After a restore of the coordinator, let all workers have offers again."""
    person = await require_person(request, "approve", step_up=True)
    return answer(await services_of(request).held.confirm(person))


async def revoke(request: Request) -> Response:
    """End the worker for good. Needs no step-up: taking a right away must never wait for a password."""
    person = await require_person(request, SCOPE)
    message = await read_message(request, ModeRequest)
    workers = services_of(request).workers
    return answer(await workers.revoke(person, request.path_params["worker"], message.reason))


async def remove(request: Request) -> Response:
    """Take the worker off the list."""
    person = await require_person(request, "approve", step_up=True)
    await services_of(request).workers.remove(person, request.path_params["worker"])
    return no_content()


_MODES: dict[str, Mode] = {"drain": "drain", "stop": "stop", "resume": "run"}

routes = [
    Route("/v1/workers", list_workers),
    Route("/v1/workers/confirm", confirm, methods=["POST"]),
    Route("/v1/workers/{worker}", show),
    Route("/v1/workers/{worker}", patch, methods=["PATCH"]),
    Route("/v1/workers/{worker}", remove, methods=["DELETE"]),
    *(Route(f"/v1/workers/{{worker}}/{word}", set_mode, methods=["POST"]) for word in _MODES),
    Route("/v1/workers/{worker}/renew", renew, methods=["POST"]),
    Route("/v1/workers/{worker}/keep", keep, methods=["POST"]),
    Route("/v1/workers/{worker}/revoke", revoke, methods=["POST"]),
]
