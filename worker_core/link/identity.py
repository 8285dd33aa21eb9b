"""The worker's identity: an Ed25519 key made on this workstation, of which only the public half ever leaves it."""

from typing import Self

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from worker_core.wire.codec import BadMessage, Message, decode, encode
from worker_core.wire.signed import ALGORITHM

_CURVE = "Ed25519"


class BadCredential(Exception):
    """What the credential store holds is not a worker's key."""


class _Secret(Message):
    x: str
    d: str


class WorkerKey:
    """The key pair of one worker."""

    def __init__(self, key: OKPKey) -> None:
        self._key = key
        public = key.as_dict(private=False)
        self.public_jwk: dict[str, str] = {name: str(public[name]) for name in ("kty", "crv", "x")}
        self.thumbprint: str = key.thumbprint()
        """RFC 7638, base64url: how both sides name this key."""

    @classmethod
    def generate(cls) -> Self:
        """Make a new key."""
        return cls(OKPKey.generate_key(_CURVE))

    @classmethod
    def from_secret(cls, text: str) -> Self:
        """Read what :attr:`secret` gave; raises :class:`BadCredential`."""
        try:
            secret = decode(text, _Secret)
            key = OKPKey.import_key({"kty": "OKP", "crv": _CURVE, "x": secret.x, "d": secret.d})
        except (BadMessage, JoseError, ValueError) as error:
            raise BadCredential("the credential store holds something that is not this worker's key") from error
        return cls(key)

    @property
    def secret(self) -> str:
        """The text for the credential store, well below its 400 characters."""
        private = self._key.as_dict(private=True)
        return encode(_Secret(x=str(private["x"]), d=str(private["d"]))).decode()

    def sign(self, header: dict[str, object], payload: bytes) -> str:
        """Return a JWS (compact) over ``payload``."""
        return jws.serialize_compact({"alg": ALGORITHM, **header}, payload, self._key, algorithms=[ALGORITHM])
