"""Log-in over HTTP, for scripts: an API token for e-mail and password."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.accounts.people import LOGIN_SCOPES
from coordinator.api.auth import check_origin, clear_login_cookie, client_ip, require_person
from coordinator.api.bodies import FROM_STRANGERS_BYTES, answer, no_content, read_message
from coordinator.api.context import services_of
from worker_core.wire.client import LoginRequest, TokenView
from worker_core.wire.codec import Message
from worker_core.wire.problems import problem


class StepUp(Message):
    """The password again."""

    password: str


async def log_in(request: Request) -> Response:
    """Give a script its API token. Browsers log in by the console's form instead."""
    check_origin(request)
    message = await read_message(request, LoginRequest, max_bytes=FROM_STRANGERS_BYTES)
    people = services_of(request).people
    account = await people.authenticate(message.email, message.password, client_ip(request))
    token = await people.add_token(account.email, message.token_name, LOGIN_SCOPES)
    return answer(TokenView(token=token, scopes=LOGIN_SCOPES, account=account.email))


async def step_up(request: Request) -> Response:
    """Take the password of a logged-in person again."""
    person = await require_person(request)
    if person.via != "cookie":
        raise problem("forbidden", "an API token has no password; one of scope approve needs none")
    message = await read_message(request, StepUp)
    await services_of(request).logins.step_up(person, message.password, client_ip(request))
    return no_content()


async def log_out(request: Request) -> Response:
    """End the log-in of a cookie, or the API token that was sent."""
    person, services = await require_person(request), services_of(request)
    await (services.logins.end(person) if person.via == "cookie" else services.people.end_token(person))
    response = no_content()
    clear_login_cookie(response, request)
    return response


routes = [
    Route("/v1/console/login", log_in, methods=["POST"]),
    Route("/v1/console/step-up", step_up, methods=["POST"]),
    Route("/v1/console/logout", log_out, methods=["POST"]),
]
