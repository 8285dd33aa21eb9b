"""What pairing left on this workstation, kept in the journal; the key itself lies in the credential store."""

from worker_core.journal.journal import Journal
from worker_core.link.signatures import PinnedCoordinator
from worker_core.machine.keystore import StoreKind
from worker_core.machine.machine_id import fingerprint
from worker_core.wire.codec import Message, decode, encode

_ENROLLED = "enrollment"
_FAREWELL = "farewell"


class Enrollment(Message):
    """To whom this worker belongs, and whose signatures it obeys."""

    coordinator: str
    worker_id: str
    worker_name: str
    account: str
    approved_by: str
    thumbprint: str
    jwks: dict[str, list[dict[str, str]]]
    credential_store: StoreKind
    authorization_s: float
    """Full length of the authorization, as far as we know: an extension is asked for in its last third."""
    machine: str = ""
    """Fingerprint of the computer that was paired; empty where the system has no id."""
    key_made_at: float = 0.0
    """Date of the key (unix seconds by this computer's clock)."""

    def is_of_another(self, computer: str) -> bool:
        """Tell whether this home was copied here from another computer."""
        here = fingerprint(computer, self.worker_id)
        return bool(self.machine and here) and here != self.machine

    @property
    def pinned(self) -> PinnedCoordinator:
        """Whose signatures count, and whom they must name."""
        return PinnedCoordinator(worker_id=self.worker_id, thumbprint=self.thumbprint, jwks=self.jwks)


class Farewell(Message):
    """What is left to say after a revocation. On disk beside an enrollment it says that a wipe was cut short."""

    coordinator: str
    worker_name: str
    by: str
    revoked_at: str
    reason: str = ""
    key_left: str = ""
    """Why the key could not be removed from its store, and what to do; empty when it is gone."""


def read_enrollment(journal: Journal) -> Enrollment | None:
    """Return the enrollment, None for a worker that is not paired."""
    text = journal.fact(_ENROLLED)
    return decode(text, Enrollment) if text else None


async def write_enrollment(journal: Journal, enrollment: Enrollment) -> None:
    """Put the enrollment on disk; an older farewell has had its time, and goes first: both together mean a wipe."""
    await journal.set_fact(_FAREWELL, None)
    await journal.set_fact(_ENROLLED, encode(enrollment).decode())


def read_farewell(journal: Journal) -> Farewell | None:
    """Return who revoked this worker and when, until it is paired again."""
    text = journal.fact(_FAREWELL)
    return decode(text, Farewell) if text else None


async def write_farewell(journal: Journal, farewell: Farewell) -> None:
    """Keep who revoked this worker, for the person who comes home to it."""
    await journal.set_fact(_FAREWELL, encode(farewell).decode())
