"""Work of a worker over HTTP: polls, leases, events, inputs and the end of attempts (W1–W5, W10–W12)."""

import asyncio
import contextlib

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from coordinator.api.auth import require_worker
from coordinator.api.bodies import REPORT_BYTES, answer, no_content, read_bytes, read_message
from coordinator.api.context import Services, services_of
from coordinator.api.ranges import slice_for
from coordinator.queue.ingest import read_batch
from coordinator.queue.parked import ParkedPoll
from worker_core.wire.work import AcceptRequest, Completion, Decline, Heartbeat, PollRequest, Release

MAX_BATCH_BYTES = 4 << 20


async def poll(request: Request) -> Response:
    """W1: wait for an offer or for news; 204 when there is none."""
    caller = await require_worker(request)
    body = await read_message(request, PollRequest, max_bytes=REPORT_BYTES)
    services = services_of(request)
    place = ParkedPoll(caller.worker_id, caller.account_id, body.free_slots, body.local_mode, body.held_gpus)
    # The worker may hang up while it waits; nobody else would notice before the wait is over.
    watch = asyncio.create_task(_end_when_gone(request, place))
    try:
        found = await services.queue.polls.answer(place, caller.session_id, body)
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
    if place.ended == "gone" and place.offered is not None:
        await services.queue.polls.take_back(place.offered)
    if found is not None:
        return answer(found)
    return no_content(_retry_after(services) if place.ended == "stopping" else None)


async def accept(request: Request) -> Response:
    """W2: take an offer."""
    caller = await require_worker(request)
    body = await read_message(request, AcceptRequest)
    return answer(await services_of(request).queue.attempts.accept(caller, _attempt(request), body.epoch))


async def decline(request: Request) -> Response:
    """W3: refuse an offer."""
    caller = await require_worker(request)
    body = await read_message(request, Decline)
    await services_of(request).queue.attempts.decline(caller, _attempt(request), body)
    return no_content()


async def heartbeat(request: Request) -> Response:
    """W4: renew leases and hear about them."""
    caller = await require_worker(request)
    body = await read_message(request, Heartbeat, max_bytes=REPORT_BYTES)
    return answer(await services_of(request).queue.leases.heartbeat(caller.worker_id, caller.session_id, body))


async def events(request: Request) -> Response:
    """W5: take a batch of events."""
    caller = await require_worker(request)
    batch = read_batch(await read_bytes(request, MAX_BATCH_BYTES))
    return answer(await services_of(request).queue.ingest.take(caller, _attempt(request), batch))


async def send_input(request: Request) -> Response:
    """W10: give out an input or the checkpoint to resume from, while the lease lives."""
    caller = await require_worker(request)
    files = services_of(request).queue.artifacts
    path, size = await files.input_of(caller, _attempt(request), request.path_params["sha256"])
    part = slice_for(request.headers.get("range"), size)
    content = files.send_input(caller, _attempt(request), path, part.start, part.end)
    return StreamingResponse(content, part.status, part.headers, "application/octet-stream")


async def complete(request: Request) -> Response:
    """W11: record the end of an attempt."""
    caller = await require_worker(request)
    body = await read_message(request, Completion)
    return answer(await services_of(request).queue.attempts.complete(caller, _attempt(request), body))


async def release(request: Request) -> Response:
    """W12: give the job back."""
    caller = await require_worker(request)
    body = await read_message(request, Release)
    await services_of(request).queue.attempts.release(caller, _attempt(request), body)
    return no_content()


async def _end_when_gone(request: Request, place: ParkedPoll) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
    place.end("gone")


def _retry_after(services: Services) -> dict[str, str]:
    return {"Retry-After": str(max(1, round(services.settings.worker.reconnect_spread_s)))}


def _attempt(request: Request) -> str:
    return request.path_params["attempt"]


routes = [
    Route("/v1/poll", poll, methods=["POST"]),
    Route("/v1/heartbeat", heartbeat, methods=["POST"]),
    Route("/v1/attempts/{attempt}/accept", accept, methods=["POST"]),
    Route("/v1/attempts/{attempt}/decline", decline, methods=["POST"]),
    Route("/v1/attempts/{attempt}/events", events, methods=["POST"]),
    Route("/v1/attempts/{attempt}/inputs/{sha256}", send_input, methods=["GET"]),
    Route("/v1/attempts/{attempt}/complete", complete, methods=["POST"]),
    Route("/v1/attempts/{attempt}/release", release, methods=["POST"]),
]
