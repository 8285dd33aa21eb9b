"""The coordinator's own key: made once, kept in a 0600 file, pinned by workers when they pair."""

import hashlib
from pathlib import Path

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from coordinator.errors import HostError
from coordinator.storage.private_files import write_private
from worker_core.wire.codec import BadMessage, decode, encode
from worker_core.wire.signed import ALGORITHM, NextKey, Offer, Revocation

KEY_NAME = "coordinator-key.pem"
NEXT_KEY_NAME = "coordinator-key-next.pem"

Jwk = dict[str, str]


class UnusableKey(HostError):
    """The key file is damaged; the text says what to do."""


class CoordinatorKeys:
    """Signs offers, revocations and the name of the key that comes next."""

    def __init__(self, key: OKPKey, next_key: OKPKey | None = None) -> None:
        self._key = key
        self.public: Jwk = public_jwk(key)
        self.thumbprint = key.thumbprint()
        self.next: Jwk | None = public_jwk(next_key) if next_key is not None else None

    @classmethod
    def load(cls, data: Path) -> "CoordinatorKeys":
        """Read the key of a data folder, or make it. Raises :class:`UnusableKey`."""
        path = data / KEY_NAME
        if not path.exists():
            make_key(path)
        following = data / NEXT_KEY_NAME
        return cls(_read_key(path), _read_key(following) if following.exists() else None)

    def jwks(self) -> dict[str, list[Jwk]]:
        """Return the JWK set that workers pin."""
        keys = [self.public] if self.next is None else [self.public, self.next]
        return {"keys": [{**key, "kid": thumbprint_of(key), "alg": ALGORITHM, "use": "sig"} for key in keys]}

    def sign(self, message: Offer | Revocation | NextKey) -> str:
        """Return a compact JWS of a signed object."""
        header = {"alg": ALGORITHM, "kid": self.thumbprint}
        return jws.serialize_compact(header, encode(message), self._key, algorithms=[ALGORITHM])

    def announce_next(self, worker_id: str, thumbprint: str, generation: int) -> str | None:
        """Return the signed name of the key that comes next, for one worker to pin; None while there is none."""
        if self.next is None:
            return None
        return self.sign(NextKey(worker_id=worker_id, thumbprint=thumbprint, gen=generation, **self.next))

    def opened_offer(self, compact: str) -> Offer | None:
        """Return an offer that we signed ourselves, read back from a worker; None when it is not ours."""
        try:
            signed = jws.deserialize_compact(compact, self._key, algorithms=[ALGORITHM])
            return decode(signed.payload or b"", Offer)
        except (JoseError, BadMessage, ValueError):
            return None


def make_key(path: Path) -> None:
    """Make a new key in a private file."""
    write_private(path, OKPKey.generate_key("Ed25519").as_pem(private=True))


def thumbprint_of(public: Jwk) -> str:
    """Return the RFC 7638 thumbprint of a public key."""
    return OKPKey.import_key(dict(public)).thumbprint()


def _read_key(path: Path) -> OKPKey:
    try:
        return OKPKey.import_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UnusableKey(
            f"cannot read the coordinator's key {path}: {error}. Restore it from a backup; "
            "with a new key every worker would have to pair again."
        ) from error


def public_jwk(key: OKPKey) -> Jwk:
    """Return the public half as a JWK of exactly the members that a thumbprint covers."""
    members = key.as_dict(private=False)
    return {name: str(members[name]) for name in ("kty", "crv", "x")}


def fingerprint_words(worker_thumbprint: str, coordinator_thumbprint: str, pairing_id: str) -> str:
    """Return four words that worker and console show for one pairing."""
    seed = f"{worker_thumbprint}\n{coordinator_thumbprint}\n{pairing_id}".encode()
    digest = hashlib.sha256(seed).digest()
    return " ".join(WORDS[byte] for byte in digest[:4])


# 256 short words that are hard to confuse when read aloud.
WORDS: tuple[str, ...] = tuple(
    """
    acorn actor album alley alpha amber angel ankle apple apron arena armor arrow aspen atlas attic
    autumn bacon badge bagel baker bamboo banjo barley basil basin beach beacon beaver berry birch
    bison blade blanket blossom bonus border bottle branch bread bridge bronze brush bucket buffalo
    bugle butter button cabin cactus camel candle canoe canyon carbon carpet castle cedar cello
    chalk cherry chess chimney cider cinema circle citrus clay cliff clover cobalt cocoa comet
    copper coral cotton cradle crane crayon crystal daisy dancer delta denim desert diamond dolphin
    donkey dragon drum eagle easel echo elbow elm ember emerald engine envelope fabric falcon
    feather fern fiddle finch flame flute forest fossil fountain fox garden garlic gecko geyser
    ginger giraffe glacier globe goblet gold goose granite grape gravel guitar hammer harbor harp
    hazel helmet heron hickory hockey honey hornet igloo indigo iris island ivory jacket jaguar
    jasmine jelly jersey jewel jigsaw juniper kayak kernel kettle kitten koala ladder lagoon lantern
    laurel lemon leopard lilac lily lizard llama lobster locket lotus magnet mango maple marble
    meadow melon mirror mitten monkey mosaic muffin museum napkin nectar nickel nutmeg oasis ocean
    olive onyx opal orange orchid otter oyster paddle panda panther papaya parade parrot peach
    peanut pebble pelican pencil pepper piano pigeon pillow pine planet plum pocket pollen poppy
    potato prairie prism puffin pumpkin quartz quilt rabbit raccoon radish raven ribbon river robin
    rocket ruby saddle saffron salmon satin scarf shadow silver sparrow spruce squash sunset tango
    teapot thunder tiger timber tulip tundra turtle velvet violin walnut willow window winter yogurt
    zebra
    """.split()  # noqa: SIM905
)
