"""The history over HTTP: who did what to which worker or account."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.api.auth import require_person
from coordinator.api.bodies import answer
from coordinator.api.context import services_of
from coordinator.api.queries import number

SCOPE = "workers"
MAX_PAGE = 500


async def history(request: Request) -> Response:
    """Return the newest entries, or those before ``?after=<id>``."""
    person = await require_person(request, SCOPE)
    limit = min(max(1, number(request.query_params, "limit", 50)), MAX_PAGE)
    after = number(request.query_params, "after", 0) or None
    entries = await services_of(request).audit.page(person.account_id, limit, after)
    following = str(entries[-1].id) if len(entries) == limit else None
    return answer({"items": entries, "next": following})


routes = [Route("/v1/audit", history)]
