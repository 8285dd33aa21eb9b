"""The web application around all endpoints: headers on every response, one form for every error."""

import logging
import math
from collections.abc import Callable, Sequence

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinator.api.auth import due_nonce
from coordinator.api.context import Services, services_of
from coordinator.storage.full_disk import is_disk_full
from worker_core.wire.codec import encode
from worker_core.wire.problems import CONTENT_TYPE, Problem, ProblemError, problem
from worker_core.wire.signed import GENERATION_HEADER, NONCE_HEADER

log = logging.getLogger(__name__)

DISK_FULL_AGAIN_S = 30.0

ErrorPage = Callable[[Request, Problem], Response]

_SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def create_app(services: Services, routes: Sequence[BaseRoute], error_page: ErrorPage | None = None) -> Starlette:
    """Return the application; ``error_page`` shows errors to browsers outside ``/v1``."""

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)
        return _refusal(request, error.problem, error_page)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = _refusal(request, _problem_of_http(request, error), error_page)
        response.headers.update(error.headers or {})
        return response

    app = Starlette(
        routes=routes,
        exception_handlers={ProblemError: on_problem, HTTPException: on_http},
        middleware=[Middleware(Envelope, services=services, error_page=error_page)],
    )
    app.router.redirect_slashes = False
    app.state.services = services
    return app


class Envelope:
    """Puts our headers on every response, and turns a failure of ours into a problem document or its page."""

    def __init__(self, app: ASGIApp, services: Services, error_page: ErrorPage | None) -> None:
        self._app = app
        self._services = services
        self._error_page = error_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: dict[str, object] = scope.setdefault("state", {})
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._add_headers(MutableHeaders(scope=message), state, scope["path"])
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            log.debug("the client of %s %s left before its body was read", scope["method"], scope["path"])
        except Exception as error:
            failure = _failure_of(error)
            if failure.code == "disk-full":
                log.error("%s %s was refused: %s", scope["method"], scope["path"], getattr(error, "orig", error))
            else:
                log.exception("%s %s failed", scope["method"], scope["path"])
            if not started:
                await self._tell(Request(scope), failure)(scope, receive, send_with_headers)

    def _tell(self, request: Request, failure: Problem) -> Response:
        try:
            return _refusal(request, failure, self._error_page)
        except Exception:
            # Pages themselves may be what fails.
            log.exception("the page that says so failed as well")
            return problem_response(failure)

    def _add_headers(self, headers: MutableHeaders, state: dict[str, object], path: str) -> None:
        headers[GENERATION_HEADER] = str(self._services.generation)
        nonce = due_nonce(state)
        if nonce is not None:
            headers[NONCE_HEADER] = nonce
        for name, value in _SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        if path.startswith("/v1/"):
            headers.setdefault("Cache-Control", "no-store")


def _failure_of(error: Exception) -> Problem:
    """Return what to answer when something failed that no route foresaw; nothing of it took effect."""
    if is_disk_full(error):
        detail = "nothing was changed; the same request works when there is room again"
        return problem("disk-full", detail, retry_after_s=DISK_FULL_AGAIN_S).problem
    return problem("internal", "something went wrong here; the coordinator's log says more").problem


def problem_response(refusal: Problem) -> Response:
    """Return a problem document as a response."""
    headers: dict[str, str] = {}
    if refusal.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(refusal.retry_after_s))
    return Response(encode(refusal), refusal.status, headers, CONTENT_TYPE)


def _refusal(request: Request, refusal: Problem, error_page: ErrorPage | None) -> Response:
    refusal = msgspec.structs.replace(refusal, instance=refusal.instance or request.url.path)
    wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
    if error_page is not None and wants_page:
        return error_page(request, refusal)
    return problem_response(refusal)


def _problem_of_http(request: Request, error: HTTPException) -> Problem:
    services = services_of(request)
    if error.status_code == 404:
        return problem("not-found", f"{services.public_url} has no {request.url.path}").problem
    if error.status_code == 405:
        detail = f"{request.url.path} does not take {request.method}"
        return msgspec.structs.replace(problem("invalid-request", detail).problem, status=405)
    return msgspec.structs.replace(problem("invalid-request", error.detail).problem, status=error.status_code)
