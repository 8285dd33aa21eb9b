"""The change feed as a long poll: the twin of the console's stream, for scripts."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.api.auth import require_person
from coordinator.api.bodies import answer
from coordinator.api.context import services_of
from coordinator.api.queries import number

LONGEST_WAIT_S = 30


async def changes(request: Request) -> Response:
    """Return what changed after a sequence number, waiting for something to change."""
    person = await require_person(request)
    services = services_of(request)
    feed = services.queue.feed
    after = number(request.query_params, "after", 0)
    wait_s = max(0, min(number(request.query_params, "wait", 0), LONGEST_WAIT_S))
    with feed.subscribe(person.account_id) as watcher:
        found, resync = await feed.changes_after(person.account_id, after)
        if not found and not resync and wait_s and not services.stopping.is_set():
            await watcher.wait(wait_s)
            found, resync = await feed.changes_after(person.account_id, after)
    following = await feed.last_seq() if resync else found[-1].seq if found else after
    return answer({"epoch": feed.epoch, "items": found, "next": following, "resync": resync})


routes = [Route("/v1/changes", changes, methods=["GET"])]
