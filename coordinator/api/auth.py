"""Who makes a request: a worker by its proof and token, a person by cookie or API token."""

import hmac
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from coordinator.accounts.people import Person
from coordinator.accounts.proofs import Proof
from coordinator.api.context import Services, services_of
from coordinator.storage.database import AnyRow
from worker_core.wire.problems import ProblemError, problem
from worker_core.wire.signed import PROOF_HEADER

CSRF_HEADER = "X-CSRF-Token"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_NONCE_STATE = "dpop_nonce"


@dataclass(frozen=True)
class WorkerCaller:
    """A worker that proved its key and holds a token of its current connection."""

    worker_id: str
    session_id: str
    account_id: str
    thumbprint: str


async def require_worker(request: Request) -> WorkerCaller:
    """Return the calling worker; raises the problems every worker endpoint shares."""
    token = token_of(request)
    proof = check_proof(request, request.headers.get(PROOF_HEADER), token)
    services = services_of(request)
    caller = await services.sessions.caller(proof.thumbprint, token)
    return WorkerCaller(caller.worker_id, caller.session_id, caller.account_id, proof.thumbprint)


async def require_key(request: Request) -> AnyRow:
    """Return the row of the registered, unrevoked worker whose key signed the proof."""
    proof = require_proof(request)
    return await services_of(request).sessions.worker_of_key(proof.thumbprint)


def require_proof(request: Request) -> Proof:
    """Return the proof of a key that need not be known."""
    return check_proof(request, request.headers.get(PROOF_HEADER))


def token_of(request: Request) -> str:
    """Return the access token a worker sent."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "dpop" or not token:
        raise problem("token-expired", "this request needs Authorization: DPoP <token>")
    return token


async def require_person(request: Request, scope: str = "jobs", *, step_up: bool = False) -> Person:
    """Return who calls; ``step_up`` asks for a password entered at most five minutes ago."""
    person = await current_person(request)
    if person is None:
        raise problem("not-signed-in", "sign in, or send Authorization: Bearer <API token>")
    if scope not in person.scopes:
        held = ", ".join(sorted(person.scopes)) or "none"
        raise problem("forbidden", f"this needs the scope {scope}; the API token has {held}")
    if person.via == "cookie" and request.method not in _SAFE_METHODS:
        check_csrf(request, person, request.headers.get(CSRF_HEADER))
    if step_up and not person.stepped_up:
        raise problem("step-up-required", "enter the password again, or use an API token of scope approve")
    return person


async def current_person(request: Request) -> Person | None:
    """Return who calls, or nobody; an API token that is not known is an error all the same."""
    services = services_of(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return await services.people.person_of_token(token.strip())
    cookie = request.cookies.get(cookie_name(services))
    return await services.logins.person(cookie) if cookie else None


def check_csrf(request: Request, person: Person, form_token: str | None) -> None:
    """Refuse a request that another site could have made the person's browser send."""
    check_origin(request)
    if not form_token or not hmac.compare_digest(form_token.encode(), person.csrf.encode()):
        raise problem("forbidden", "the page is too old; load it again and repeat")


def check_origin(request: Request) -> None:
    """Refuse a request that a page of another site sent."""
    services = services_of(request)
    origin = request.headers.get("origin")
    if origin is not None and origin not in services.origins:
        raise problem("forbidden", f"the request comes from {origin}, this coordinator is {services.public_url}")
    if origin is None and request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise problem("forbidden", "the request comes from another site")


def client_ip(request: Request) -> str:
    """Return the address a request came from."""
    return request.client.host if request.client else "unknown"


def cookie_name(services: Services) -> str:
    """Return the log-in cookie's name; cookies do not know ports, so on plain HTTP the name does."""
    address = urlsplit(services.public_url)
    return "__Host-stoker" if address.scheme == "https" else f"stoker-{address.port or 80}"


def set_login_cookie(response: Response, request: Request, value: str) -> None:
    """Give the browser its log-in cookie."""
    services = services_of(request)
    response.set_cookie(
        cookie_name(services),
        value,
        max_age=int(services.settings.login_s),
        path="/",
        secure=services.public_url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )


def clear_login_cookie(response: Response, request: Request) -> None:
    """Take the log-in cookie back."""
    services = services_of(request)
    secure = services.public_url.startswith("https:")
    response.delete_cookie(cookie_name(services), path="/", secure=secure, httponly=True, samesite="lax")


def due_nonce(scope_state: dict[str, object]) -> str | None:
    """Return the nonce that a response has to carry."""
    nonce = scope_state.get(_NONCE_STATE)
    return nonce if isinstance(nonce, str) else None


def check_proof(request: Request, given: str | None, token: str | None = None) -> Proof:
    """Return whose proof for this request it is, and see to it that a nonce which is due goes out with the answer."""
    services = services_of(request)
    nonces = services.proofs.nonces
    try:
        proof = services.proofs.check(given, request.method, request.url.path, token)
    except ProblemError as refusal:
        if refusal.code == "use-dpop-nonce":
            request.scope.setdefault("state", {})[_NONCE_STATE] = nonces.current()
        raise
    if proof.nonce_due:
        request.scope.setdefault("state", {})[_NONCE_STATE] = nonces.current()
    return proof
