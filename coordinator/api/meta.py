"""What anyone may ask: who we are (S0) and whether we are up.

The two health addresses stand on the same listener: it is loopback, or behind a proxy that chooses what it shows.
"""

from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from coordinator.api.bodies import answer
from coordinator.api.context import services_of
from coordinator.clock import rfc3339
from worker_core.wire.problems import problem
from worker_core.wire.session import Meta

API_VERSIONS = (1, 1)


async def meta(request: Request) -> Response:
    """S0: generation, versions, time."""
    services = services_of(request)
    return answer(
        Meta(
            gen=services.generation,
            api=API_VERSIONS,
            server_time=rfc3339(services.clock.now()),
            min_worker_version=services.settings.min_worker_version,
        )
    )


async def healthz(request: Request) -> Response:
    """Tell that the process answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """Tell that requests will be served: the database answers and no stop is under way."""
    services = services_of(request)
    if services.stopping.is_set():
        raise problem("draining", "the coordinator is stopping", retry_after_s=services.settings.stop_s)
    await services.db.read(lambda conn: conn.execute(text("SELECT 1")).scalar())
    return PlainTextResponse("ok\n")


routes = [Route("/v1/meta", meta), Route("/healthz", healthz), Route("/readyz", readyz)]
