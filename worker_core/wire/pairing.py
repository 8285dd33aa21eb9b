"""Pairing (P1–P6): how a worker's key becomes known to an account, following RFC 8628 in meaning."""

from typing import Annotated

import msgspec

from worker_core.wire.codec import Count, Message
from worker_core.wire.session import Authorization

USER_CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
USER_CODE_LENGTH = 8

Email = Annotated[str, msgspec.Meta(min_length=3, max_length=254, pattern=r"^[^@\s]+@[^@\s]+$")]
WorkerName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class BadUserCode(ValueError):
    """Text that cannot be a pairing code."""


def normalise_user_code(text: str) -> str:
    """Return a typed code as ``BCDFGHJK``: any case, blanks and hyphens allowed, foreign characters refused."""
    letters = text.upper().replace("-", "").replace(" ", "")
    foreign = sorted({letter for letter in letters if letter not in USER_CODE_ALPHABET})
    if foreign:
        raise BadUserCode(f"a pairing code has no {', '.join(foreign)}; its letters are {USER_CODE_ALPHABET}")
    if len(letters) != USER_CODE_LENGTH:
        raise BadUserCode(f"a pairing code has {USER_CODE_LENGTH} letters, this has {len(letters)}")
    return letters


def show_user_code(code: str) -> str:
    """Return ``BCDF-GHJK``."""
    return f"{code[:4]}-{code[4:]}"


class Gpu(Message):
    """One GPU of the workstation, identified by the driver's UUID and never by its index."""

    uuid: str
    name: str
    memory_bytes: Count = 0
    driver: str = ""


class Host(Message):
    """The workstation as it presents itself."""

    os: str
    arch: str
    hostname: str
    gpus: tuple[Gpu, ...] = ()
    ram_gb: float = 0.0
    cpus: Count = 0


class PairingRequest(Message):
    """P1 request."""

    email: Email
    host: Host
    worker_version: str
    device_name: WorkerName | None = None


class PairingStarted(Message):
    """P1 answer; ``fingerprint`` is four words from a hash of worker key, coordinator key and pairing id."""

    pairing_id: str
    device_code: Annotated[str, msgspec.Meta(min_length=20, max_length=200)]
    """A secret, taken out of all output: a short one would be found in common words."""
    user_code: str
    verification_uri: str
    fingerprint: str
    expires_in: float = 900.0
    interval: float = 5.0


class PairingPoll(Message):
    """P2 request; errors come as a problem with ``error`` (RFC 8628 §3.5)."""

    device_code: str


class PairingApproved(Message):
    """P2 answer. ``coordinator_jwks`` is a JWK set of public Ed25519 keys to pin."""

    worker_id: str
    worker_name: str
    account: str
    approved_by: str
    authorization: Authorization
    coordinator_jwks: dict[str, list[dict[str, str]]]
    gen: int


class PairingLookup(Message):
    """P4 request; the code stands in the body, never in a URL."""

    user_code: str


class PairingFound(Message):
    """P4 answer: what the person has to compare before approving."""

    pairing_id: str
    device_name: str
    host: Host
    ip: str
    same_network: bool
    age_s: float
    fingerprint: str
    worker_version: str


class PairingApproval(Message):
    """P5 request."""

    name: WorkerName
    job_scopes: tuple[str, ...]
    authorization_s: Annotated[float, msgspec.Meta(ge=60, le=90 * 86400)]
    fingerprint_confirmed: bool
    extend_while_healthy: bool = False
    hard_cap_s: Annotated[float, msgspec.Meta(ge=60)] | None = None
