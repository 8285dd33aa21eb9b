"""Random secrets we hand out and the hashes we keep of them."""

import hashlib
import secrets

_TOKEN_BYTES = 32


def new_secret() -> str:
    """Return 256 random bits as text that fits in a header."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def hash_secret(secret: str) -> str:
    """Return what the database keeps of a secret. A plain hash will do, because the secret itself is random."""
    return hashlib.sha256(secret.encode()).hexdigest()
