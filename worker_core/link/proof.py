"""Proofs of possession (DPoP, RFC 9449): each request shows that its sender holds the worker's key.

The server's nonce, not ``iat``, proves freshness, so a wrong clock locks no worker out.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Callable

from worker_core.link.identity import WorkerKey
from worker_core.wire.codec import encode
from worker_core.wire.signed import PROOF_TYPE


def access_token_hash(token: str) -> str:
    """Return ``ath``: the base64url SHA-256 of the token."""
    digest = hashlib.sha256(token.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class ProofMaker:
    """Makes proofs with one key at a time and the newest nonce of the server."""

    def __init__(self, key: WorkerKey, now: Callable[[], float] = time.time) -> None:
        self.key = key
        self._now = now
        self.nonce: str | None = None

    def make(self, method: str, url: str, token: str | None = None) -> str:
        """Return a proof for one request to ``url`` (without query), bound to ``token`` where there is one."""
        claims: dict[str, object] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": url,
            "iat": int(self._now()),
        }
        if self.nonce is not None:
            claims["nonce"] = self.nonce
        if token is not None:
            claims["ath"] = access_token_hash(token)
        return self.key.sign({"typ": PROOF_TYPE, "jwk": self.key.public_jwk}, encode(claims))
