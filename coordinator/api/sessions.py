"""Connections over HTTP: S1 to S4, S6 and S7."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.accounts.sessions import Caller
from coordinator.api.auth import check_proof, client_ip, require_key, require_worker, token_of
from coordinator.api.bodies import REPORT_BYTES, answer, no_content, read_message
from coordinator.api.context import services_of
from worker_core.wire.problems import ProblemError, problem
from worker_core.wire.session import ExtendRequest, Goodbye, KeyChange, SessionRequest


async def connect(request: Request) -> Response:
    """S1."""
    worker = await require_key(request)
    message = await read_message(request, SessionRequest, max_bytes=REPORT_BYTES)
    return answer(await services_of(request).sessions.connect(worker, message, client_ip(request)), 201)


async def new_token(request: Request) -> Response:
    """S2."""
    worker = await require_key(request)
    session_id = request.path_params["session"]
    return answer(await services_of(request).sessions.new_token(worker, session_id, client_ip(request)))


async def goodbye(request: Request) -> Response:
    """S3."""
    caller = await require_worker(request)
    message = await read_message(request, Goodbye)
    if request.path_params["session"] != caller.session_id:
        raise problem("session-ended", "this is not the present connection")
    ending = Caller(caller.worker_id, caller.session_id, caller.account_id)
    await services_of(request).sessions.goodbye(ending, message.reason)
    return no_content()


async def extend(request: Request) -> Response:
    """S4."""
    caller = await require_worker(request)
    message = await read_message(request, ExtendRequest)
    return answer(await services_of(request).workers.extend(caller.worker_id, caller.session_id, message.health))


async def change_key(request: Request) -> Response:
    """S6; the body's proof is by the new key, for this request and this token."""
    caller = await require_worker(request)
    message = await read_message(request, KeyChange)
    proof = check_proof(request, message.proof, token_of(request))
    await services_of(request).key_changes.change(caller.worker_id, caller.session_id, proof.thumbprint)
    return no_content()


async def unpair(request: Request) -> Response:
    """S7; a worker that is gone already may say so again."""
    try:
        caller = await require_worker(request)
    except ProblemError as refusal:
        if refusal.code in ("worker-revoked", "worker-unknown", "key-replaced"):
            return no_content()
        raise
    await services_of(request).workers.revoke_itself(caller.worker_id)
    return no_content()


routes = [
    Route("/v1/sessions", connect, methods=["POST"]),
    Route("/v1/sessions/{session}/token", new_token, methods=["POST"]),
    Route("/v1/sessions/{session}", goodbye, methods=["DELETE"]),
    Route("/v1/authorization/extend", extend, methods=["POST"]),
    Route("/v1/worker/key", change_key, methods=["POST"]),
    Route("/v1/worker", unpair, methods=["DELETE"]),
]
