"""What the coordinator signs is believed only with the key pinned at pairing, and only for this very worker."""

from typing import Any, TypeVar, cast

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OKPKey

from worker_core.wire.codec import Message, decode
from worker_core.wire.signed import ALGORITHM, NextKey, Offer, Revocation

MAX_SIGNED_BYTES = 256 * 1024
MAX_PINNED = 2
"""The coordinator's present key and one beside it, the next or the last."""
S = TypeVar("S", Offer, Revocation, NextKey)


class NotSignedForUs(Exception):
    """A signed object that must not be obeyed; the text says why."""


class PinnedCoordinator(Message):
    """What pairing pinned: whose signatures count, and whom they must name."""

    worker_id: str
    thumbprint: str
    jwks: dict[str, list[dict[str, str]]]
    next_thumbprint: str = ""
    """The worker's other key, while it is being changed."""

    def offer(self, compact: str, gen: int) -> Offer:
        """Return the offer in a JWS; raises :class:`NotSignedForUs`."""
        return self._verify(compact, Offer, gen)

    def revocation(self, compact: str) -> Revocation:
        """Return the revocation in a JWS; raises :class:`NotSignedForUs`.

        Its generation may be older than the coordinator's: a restored coordinator repeats what was signed before.
        """
        return self._verify(compact, Revocation, None)

    def with_next_key(self, compact: str, gen: int) -> dict[str, list[dict[str, str]]]:
        """Return the keys to pin from now on: ours, and the one it names; raises :class:`NotSignedForUs`."""
        named = self._verify(compact, NextKey, gen)
        key = {"kty": named.kty, "crv": named.crv, "x": named.x}
        try:
            thumbprint = OKPKey.import_key(dict(key)).thumbprint()
        except (JoseError, ValueError) as error:
            raise NotSignedForUs(f"the next key is none: {error}") from error
        if any(known.get("x") == named.x for known in self.jwks["keys"]):
            return self.jwks
        # The key that signed this stays; an older one beside it has had its time.
        signer = jws.extract_compact(compact.encode()).headers().get("kid")
        kept = [known for known in self.jwks["keys"] if known.get("kid") == signer] or self.jwks["keys"]
        return {"keys": [*kept[: MAX_PINNED - 1], {**key, "kid": thumbprint, "alg": ALGORITHM, "use": "sig"}]}

    def _verify(self, compact: str, kind: type[S], gen: int | None) -> S:
        if len(compact) > MAX_SIGNED_BYTES:
            raise NotSignedForUs(f"a signed {kind.__name__.lower()} of {len(compact)} bytes is too long")
        try:
            keys = KeySet.import_key_set(cast(Any, self.jwks))
            signed = jws.deserialize_compact(compact, keys, algorithms=[ALGORITHM])
            message = decode(signed.payload or b"", kind)
        except (JoseError, ValueError, KeyError) as error:
            raise NotSignedForUs(f"not a {kind.__name__.lower()} signed by our coordinator: {error}") from error
        self._check_names_us(message, gen)
        return message

    def _check_names_us(self, message: Offer | Revocation | NextKey, gen: int | None) -> None:
        if message.worker_id != self.worker_id:
            raise NotSignedForUs(f"it is signed for worker {message.worker_id}")
        if not message.thumbprint or message.thumbprint not in (self.thumbprint, self.next_thumbprint):
            raise NotSignedForUs("it is signed for another key of this worker")
        if gen is not None and message.gen != gen:
            raise NotSignedForUs(f"it is of generation {message.gen}, the coordinator is at {gen}")
