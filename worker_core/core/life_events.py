"""What can happen to a worker, as the events of its state machine (worker_core/core/life.py)."""

from dataclasses import dataclass
from typing import Literal

from worker_core.wire.vocabulary import Mode


@dataclass(frozen=True)
class PairingBegun:
    """A person asked for a pairing code."""


@dataclass(frozen=True)
class PairingApproved:
    """The pairing was approved and is on disk."""


@dataclass(frozen=True)
class PairingEnded:
    """The pairing was denied, ran out, was called off or failed."""


@dataclass(frozen=True)
class KeystoreRefused:
    """The keystore does not give the key out."""


@dataclass(frozen=True)
class KeystoreOpened:
    """The key is here."""


@dataclass(frozen=True)
class SessionOpened:
    """The coordinator knows we are here."""


@dataclass(frozen=True)
class ConflictSeen:
    """The coordinator holds this credential for copied: another machine may speak as this worker."""


@dataclass(frozen=True)
class UpgradeAsked:
    """The coordinator takes no work of this version any more, or takes it again."""

    asked: bool = True


@dataclass(frozen=True)
class Quarantined:
    """The coordinator offers nothing until a person has confirmed this worker, or has confirmed it."""

    held: bool
    contested: bool = False
    """It offers nothing because another machine used this worker's key."""


@dataclass(frozen=True)
class LeaseLapsed:
    """No heartbeat was answered for as long as a lease lasts; ``stop`` when the job does not run on without one."""

    stop: bool = False


@dataclass(frozen=True)
class LeaseHeld:
    """A heartbeat was answered: the lease is good."""


@dataclass(frozen=True)
class OfflineTooLong:
    """The job has run without contact for as long as it may."""


@dataclass(frozen=True)
class ConsoleMode:
    """The console wants this mode."""

    mode: Mode


@dataclass(frozen=True)
class LocalMode:
    """The person at this workstation wants this mode; ``now`` leaves a job no time."""

    mode: Mode
    now: bool = False


@dataclass(frozen=True)
class OwnerMode:
    """What the owner's own time with this machine asks for; it ends by itself."""

    mode: Mode


@dataclass(frozen=True)
class AuthorizationSeen:
    """A copy of the authorization arrived or ran out."""

    expired: bool


@dataclass(frozen=True)
class ExpiryGraceOver:
    """A job has run on for as long as it may after the authorization's end."""


@dataclass(frozen=True)
class OfferSeen:
    """An offer with a good signature; ``obstacle`` is a reason of this machine not to take it."""

    obstacle: str = ""


@dataclass(frozen=True)
class OfferGranted:
    """The coordinator confirmed our acceptance."""


@dataclass(frozen=True)
class OfferGone:
    """The acceptance was refused, or could not be completed here."""


@dataclass(frozen=True)
class HeldFound:
    """An attempt of an earlier run of this core is being wound up."""


@dataclass(frozen=True)
class JobExited:
    """The job's main process has ended."""


@dataclass(frozen=True)
class JobGone:
    """The job's whole process tree is gone: the slot is free."""


@dataclass(frozen=True)
class CancelOrdered:
    """The coordinator cancels the running attempt."""


@dataclass(frozen=True)
class Superseded:
    """Another attempt holds the job now."""


@dataclass(frozen=True)
class Revoked:
    """A revocation signed with the pinned key arrived."""


@dataclass(frozen=True)
class Unpaired:
    """The person at this workstation ends the pairing."""


@dataclass(frozen=True)
class LeaveAsked:
    """This process shall end: after its job, with a checkpoint, or now."""

    how: Literal["drain", "checkpoint", "now"]


Event = (
    PairingBegun
    | PairingApproved
    | PairingEnded
    | KeystoreRefused
    | KeystoreOpened
    | SessionOpened
    | ConflictSeen
    | UpgradeAsked
    | Quarantined
    | LeaseLapsed
    | LeaseHeld
    | OfflineTooLong
    | ConsoleMode
    | LocalMode
    | OwnerMode
    | AuthorizationSeen
    | ExpiryGraceOver
    | OfferSeen
    | OfferGranted
    | OfferGone
    | HeldFound
    | JobExited
    | JobGone
    | CancelOrdered
    | Superseded
    | Revoked
    | Unpaired
    | LeaveAsked
)
