"""What only the host may do beside a running server: the key in the data folder's ``admin.json`` opens it."""

import hmac

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.accounts.networks import is_loopback
from coordinator.accounts.people import SCOPES, BadAccount
from coordinator.api.auth import client_ip
from coordinator.api.bodies import answer, read_message
from coordinator.api.context import services_of
from worker_core.wire.client import TokenView
from worker_core.wire.codec import Message
from worker_core.wire.problems import problem


class NewAccount(Message):
    """An account to be made."""

    email: str
    password: str


class NewPassword(Message):
    """Another password of an account."""

    email: str
    password: str


class NewToken(Message):
    """An API token to be made."""

    email: str
    name: str = "made on the host"


async def add_account(request: Request) -> Response:
    """Make an account."""
    _require_host(request)
    message = await read_message(request, NewAccount)
    try:
        made = await services_of(request).people.add(message.email, message.password)
    except BadAccount as error:
        raise problem("invalid-request", str(error)) from error
    return answer({"email": made.email}, 201)


async def set_password(request: Request) -> Response:
    """Give an account another password."""
    _require_host(request)
    message = await read_message(request, NewPassword)
    try:
        await services_of(request).people.set_password(message.email, message.password)
    except BadAccount as error:
        raise problem("invalid-request", str(error)) from error
    return answer(None)


async def add_token(request: Request) -> Response:
    """Make an API token with every scope."""
    _require_host(request)
    message = await read_message(request, NewToken)
    try:
        token = await services_of(request).people.add_token(message.email, message.name, SCOPES)
    except BadAccount as error:
        raise problem("invalid-request", str(error)) from error
    return answer(TokenView(token=token, scopes=SCOPES, account=message.email), 201)


def _require_host(request: Request) -> None:
    peer = client_ip(request)
    # A server on one address of this host sees its own commands come from that address.
    here = is_loopback(peer) or peer == (request.scope.get("server") or ("",))[0]
    _, _, key = request.headers.get("authorization", "").partition(" ")
    if not here or not hmac.compare_digest(key.encode(), services_of(request).admin_key.encode()):
        # Nobody else needs to know that this address exists.
        raise problem("not-found", "there is nothing here")


routes = [
    Route("/v1/admin/accounts", add_account, methods=["POST"]),
    Route("/v1/admin/passwords", set_password, methods=["POST"]),
    Route("/v1/admin/tokens", add_token, methods=["POST"]),
]
