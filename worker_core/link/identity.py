"""The worker's identity: an Ed25519 key made on this workstation, of which only the public half ever leaves it."""

from base64 import urlsafe_b64decode
from dataclasses import dataclass
from typing import Self

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey
from msgspec import structs

from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.wire.codec import BadMessage, Message, decode, encode
from worker_core.wire.signed import ALGORITHM

_CURVE = "Ed25519"
_NOT_OURS = "the credential store holds something that is not this worker's key"


class BadCredential(Exception):
    """What the credential store holds is not a worker's key."""


class _Secret(Message, omit_defaults=True):
    x: str
    d: str
    next: "_Secret | None" = None


class WorkerKey:
    """The key pair of one worker."""

    def __init__(self, key: OKPKey) -> None:
        self._key = key
        public = key.as_dict(private=False)
        self.public_jwk: dict[str, str] = {name: str(public[name]) for name in ("kty", "crv", "x")}
        self.thumbprint: str = key.thumbprint()
        """RFC 7638, base64url: how both sides name this key."""
        private = self.members.d
        KNOWN_SECRETS.add(private)
        KNOWN_SECRETS.add(urlsafe_b64decode(private + "=" * (-len(private) % 4)))

    @classmethod
    def generate(cls) -> Self:
        """Make a new key."""
        return cls(OKPKey.generate_key(_CURVE))

    @classmethod
    def from_secret(cls, text: str) -> Self:
        """Read what :attr:`secret` gave; raises :class:`BadCredential`."""
        try:
            secret = decode(text, _Secret)
        except BadMessage as error:
            raise BadCredential(_NOT_OURS) from error
        return cls._of(secret)

    @classmethod
    def _of(cls, secret: _Secret) -> Self:
        try:
            key = OKPKey.import_key({"kty": "OKP", "crv": _CURVE, "x": secret.x, "d": secret.d})
        except (JoseError, ValueError) as error:
            raise BadCredential(_NOT_OURS) from error
        return cls(key)

    @property
    def secret(self) -> str:
        """The text for the credential store, well below its 400 characters."""
        return encode(self.members).decode()

    @property
    def members(self) -> _Secret:
        """The private members, as the credential store keeps them."""
        private = self._key.as_dict(private=True)
        return _Secret(x=str(private["x"]), d=str(private["d"]))

    def sign(self, header: dict[str, object], payload: bytes) -> str:
        """Return a JWS (compact) over ``payload``."""
        return jws.serialize_compact({"alg": ALGORITHM, **header}, payload, self._key, algorithms=[ALGORITHM])


@dataclass(frozen=True)
class Credential:
    """What the credential store holds: the worker's key and, while it is being changed, the one that comes next.

    Both are on the disk before the coordinator hears of the new one, so whichever it knows, we have it.
    """

    key: WorkerKey
    next: WorkerKey | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what :attr:`secret` gave; raises :class:`BadCredential`."""
        key = WorkerKey.from_secret(text)
        following = decode(text, _Secret).next
        return cls(key, None if following is None else WorkerKey.from_secret(encode(following).decode()))

    @property
    def secret(self) -> str:
        """The text for the credential store, below its 400 characters."""
        following = None if self.next is None else self.next.members
        return encode(structs.replace(self.key.members, next=following)).decode()
