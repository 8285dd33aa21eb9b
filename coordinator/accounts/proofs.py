"""Proofs of possession (DPoP, RFC 9449): what a worker sends with each request instead of a bearer secret.

Freshness comes from the server's nonce and never from the worker's clock, so a wrong clock locks nobody out. A nonce
secret lives as long as the process: a proof seen before a restart is worth nothing after it.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from coordinator.clock import Clock
from worker_core.wire.codec import BadMessage, Message, decode
from worker_core.wire.problems import problem
from worker_core.wire.signed import ALGORITHM, PROOF_TYPE

MAX_PROOF_BYTES = 2048
MAX_REMEMBERED = 500_000
"""Proof ids kept of one nonce period; beyond it new proofs are refused, not remembered less."""


class _Claims(Message):
    jti: str
    htm: str
    htu: str
    iat: float
    nonce: str | None = None
    ath: str | None = None


@dataclass(frozen=True)
class Proof:
    """A proof that held: whose key it was, and whether a newer nonce is due."""

    thumbprint: str
    nonce_due: bool


class Nonces:
    """Nonces that change every ``period_s``; the previous one stays good, so each lives at least one period."""

    def __init__(self, clock: Clock, period_s: float) -> None:
        self._clock = clock
        self._period_s = period_s
        self._secret = secrets.token_bytes(32)

    def current(self) -> str:
        """Return the nonce to use now."""
        return self._nonce(self.period())

    def period(self) -> int:
        """Return the number of the running period."""
        return int(self._clock.monotonic() // self._period_s)

    def accepts(self, nonce: str) -> bool:
        """Tell whether a nonce is the current or the previous one."""
        period = self.period()
        return any(hmac.compare_digest(nonce.encode(), self._nonce(p).encode()) for p in (period, period - 1))

    def _nonce(self, period: int) -> str:
        return hmac.new(self._secret, str(period).encode(), hashlib.sha256).hexdigest()[:32]


class Proofs:
    """Checks proofs against one coordinator's public origins."""

    def __init__(self, nonces: Nonces, origins: Iterable[str]) -> None:
        self.nonces = nonces
        self._origins = {origin.rstrip("/") for origin in origins}
        self._seen: dict[int, set[bytes]] = {}

    def check(self, proof: str | None, method: str, path: str, token: str | None = None) -> Proof:
        """Return whose proof this is; raises a ``bad-proof`` or ``use-dpop-nonce`` problem.

        ``path`` is compared together with the configured origins, never with the Host header.
        """
        if not proof:
            raise problem("bad-proof", "this request needs a DPoP header")
        key, claims = _open(proof)
        if claims.htm != method or not self._is_here(claims.htu, path):
            raise problem("bad-proof", f"the proof is for {claims.htm} {claims.htu}, not for this request")
        if token is not None and claims.ath != token_hash(token):
            raise problem("bad-proof", "the proof does not belong to this token")
        if claims.nonce is None or not self.nonces.accepts(claims.nonce):
            raise problem("use-dpop-nonce", "repeat the request with the nonce of the DPoP-Nonce header")
        thumbprint = key.thumbprint()
        self._remember(thumbprint, claims.jti)
        return Proof(thumbprint, nonce_due=claims.nonce != self.nonces.current())

    def _is_here(self, htu: str, path: str) -> bool:
        return any(htu == origin + path for origin in self._origins)

    def _remember(self, thumbprint: str, jti: str) -> None:
        period = self.nonces.period()
        # A nonce of the period before is still good, so its ids must be known for one period more.
        self._seen = {number: ids for number, ids in self._seen.items() if number >= period - 2}
        ids = self._seen.setdefault(period, set())
        mark = hashlib.sha256(f"{thumbprint} {jti}".encode()).digest()[:16]
        if any(mark in known for known in self._seen.values()):
            raise problem("bad-proof", "this proof was used before; make a new one for each request")
        if len(ids) >= MAX_REMEMBERED:
            raise problem("rate-limited", "too many requests in a short time", retry_after_s=60.0)
        ids.add(mark)


def token_hash(token: str) -> str:
    """Return the ``ath`` claim for a token: base64url of its sha256."""
    return base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()


def _open(proof: str) -> tuple[OKPKey, _Claims]:
    if len(proof) > MAX_PROOF_BYTES:
        raise problem("bad-proof", "the DPoP header is too long")
    try:
        signed = jws.extract_compact(proof.encode())
        header = signed.headers()
        key = _public_key(header)
        if not jws.validate_compact(signed, key, algorithms=[ALGORITHM]):
            raise problem("bad-proof", "the proof's signature does not match its key")
        claims = decode(signed.payload, _Claims)
    except (JoseError, BadMessage, ValueError, TypeError, KeyError) as error:
        raise problem("bad-proof", f"the DPoP header is not a proof: {error}") from error
    if not 1 <= len(claims.jti) <= 128:
        raise problem("bad-proof", "the proof's jti must have 1 to 128 characters")
    return key, claims


def _public_key(header: object) -> OKPKey:
    members = cast("dict[str, object]", header)
    if members.get("typ") != PROOF_TYPE or members.get("alg") != ALGORITHM:
        raise ValueError(f"its header must say typ {PROOF_TYPE} and alg {ALGORITHM}")
    jwk = members.get("jwk")
    if not isinstance(jwk, dict) or "d" in jwk:
        raise ValueError("its header must hold the public key as jwk")
    given = cast("dict[str, object]", jwk)
    if given.get("kty") != "OKP" or given.get("crv") != "Ed25519":
        raise ValueError("its key must be an Ed25519 key")
    point = base64.urlsafe_b64decode(f"{given.get('x')}=")
    # Spelled anew, so that one key has one thumbprint however its x was written.
    x = base64.urlsafe_b64encode(point).rstrip(b"=").decode()
    return OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": x})
