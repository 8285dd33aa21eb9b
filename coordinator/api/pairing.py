"""Pairing over HTTP: P1 to P3 for the workstation, P4 to P6 for the person."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.api.auth import client_ip, require_person, require_proof
from coordinator.api.bodies import FROM_STRANGERS_BYTES, answer, no_content, read_message
from coordinator.api.context import services_of
from worker_core.wire.pairing import PairingApproval, PairingLookup, PairingPoll, PairingRequest


async def start(request: Request) -> Response:
    """P1."""
    proof = require_proof(request)
    message = await read_message(request, PairingRequest, max_bytes=FROM_STRANGERS_BYTES)
    return answer(await services_of(request).pairings.start(proof.thumbprint, message, client_ip(request)), 201)


async def poll(request: Request) -> Response:
    """P2."""
    proof = require_proof(request)
    message = await read_message(request, PairingPoll, max_bytes=FROM_STRANGERS_BYTES)
    return answer(await services_of(request).pairings.poll(proof.thumbprint, message.device_code))


async def cancel(request: Request) -> Response:
    """P3."""
    proof = require_proof(request)
    await services_of(request).pairings.cancel(proof.thumbprint, request.path_params["pairing"])
    return no_content()


async def lookup(request: Request) -> Response:
    """P4."""
    person = await require_person(request, "approve", step_up=True)
    message = await read_message(request, PairingLookup)
    return answer(await services_of(request).pairings.lookup(person, message.user_code, client_ip(request)))


async def approve(request: Request) -> Response:
    """P5."""
    person = await require_person(request, "approve", step_up=True)
    message = await read_message(request, PairingApproval)
    key = request.headers.get("idempotency-key")
    return answer(await services_of(request).pairings.approve(person, request.path_params["pairing"], message, key))


async def deny(request: Request) -> Response:
    """P6."""
    person = await require_person(request, "approve")
    await services_of(request).pairings.deny(person, request.path_params["pairing"])
    return no_content()


routes = [
    Route("/v1/pairings", start, methods=["POST"]),
    Route("/v1/pairings/poll", poll, methods=["POST"]),
    Route("/v1/pairings/{pairing}", cancel, methods=["DELETE"]),
    Route("/v1/console/pairings/lookup", lookup, methods=["POST"]),
    Route("/v1/console/pairings/{pairing}/approve", approve, methods=["POST"]),
    Route("/v1/console/pairings/{pairing}/deny", deny, methods=["POST"]),
]
