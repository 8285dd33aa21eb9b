"""The worker's life as a pure state machine: what happened in, what to do out.

A life is four small facts: how the worker stands with its coordinator, what its one slot does, the modes wanted by
console, workstation and a person who quits, and whether the authorization has run out. The phase that docs and faces
speak of follows from them (:attr:`Life.phase`). Being without
contact is no phase but an overlay: it changes nothing here.
"""

from dataclasses import dataclass, replace
from typing import Literal

from worker_core.wire.vocabulary import Mode, stricter

Standing = Literal["unpaired", "pairing", "locked", "starting", "connected", "revoked"]
Slot = Literal["free", "accepting", "running", "finishing", "stopping"]
Phase = Literal[
    "unpaired",
    "pairing",
    "locked",
    "starting",
    "resuming",
    "ready",
    "accepting",
    "busy",
    "finishing",
    "draining",
    "stopping",
    "drained",
    "paused",
    "expired",
    "revoked",
]

_IDLE: dict[Mode, Phase] = {"run": "ready", "drain": "drained", "stop": "paused"}


@dataclass(frozen=True)
class Life:
    """Everything that decides what the worker does next."""

    standing: Standing = "unpaired"
    slot: Slot = "free"
    console: Mode = "run"
    here: Mode = "run"
    leaving: Mode = "run"
    """``drain`` or ``stop`` once this process has been asked to end."""
    expired: bool = False

    @property
    def mode(self) -> Mode:
        """The mode to obey: the strictest of all."""
        return stricter(stricter(self.console, self.here), self.leaving)

    @property
    def takes_work(self) -> bool:
        """Whether an offer would be accepted."""
        return self.standing == "connected" and self.slot == "free" and self.mode == "run" and not self.expired

    @property
    def phase(self) -> Phase:
        """The one word for all this."""
        if self.standing in ("unpaired", "pairing", "locked", "revoked"):
            return self.standing
        if self.standing == "starting":
            return "starting" if self.slot == "free" else "resuming"
        if self.slot in ("accepting", "finishing", "stopping"):
            return self.slot
        if self.expired:
            return "expired"
        if self.slot == "running":
            return "busy" if self.mode == "run" else "draining"
        return _IDLE[self.mode]


# --- what happens ---


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
class ConsoleMode:
    """The console wants this mode."""

    mode: Mode


@dataclass(frozen=True)
class LocalMode:
    """The person at this workstation wants this mode; ``now`` leaves a job no time."""

    mode: Mode
    now: bool = False


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
    | ConsoleMode
    | LocalMode
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


# --- what to do ---


@dataclass(frozen=True)
class Decline:
    """Answer the offer with a reason."""

    reason: str


Do = Literal[
    "connect",  # open a session
    "forget-key",  # a pairing came to nothing
    "accept",  # W2
    "give-back",  # release an attempt that was granted but must not start
    "spawn",  # start the job
    "stop-job",  # order a checkpoint, end the tree after the grace
    "cancel-job",  # the same, for a cancelled job
    "kill-job",  # end the tree at once, the last checkpoint stays
    "discard-job",  # end the tree at once, nothing of it counts
    "report",  # heartbeat now: the coordinator should see the change
    "wipe",  # key, journal and workspaces go
    "leave",  # end this process
]
Action = Do | Decline
Step = tuple[Life, tuple[Action, ...]]


def advance(life: Life, event: Event) -> Step:
    """Return what the worker is after ``event`` and what to do; a pair that means nothing changes nothing."""
    match event:
        case PairingBegun() if life.standing in ("unpaired", "revoked"):
            return replace(life, standing="pairing"), ()
        case PairingApproved() if life.standing == "pairing":
            return Life("starting", here=life.here, leaving=life.leaving), ("connect",)
        case PairingEnded() if life.standing == "pairing":
            return replace(life, standing="unpaired"), ("forget-key",)
        case KeystoreRefused() if life.standing == "starting":
            return replace(life, standing="locked"), ()
        case KeystoreOpened() if life.standing == "locked":
            return replace(life, standing="starting"), ("connect",)
        case SessionOpened() if life.standing == "starting":
            return replace(life, standing="connected"), ()
        case Revoked() | Unpaired() if life.standing in ("locked", "starting", "connected"):
            return _put_out(life, "revoked" if isinstance(event, Revoked) else "unpaired")
        case ConsoleMode(mode):
            return _obey(replace(life, console=mode), life, "stop-job")
        case LocalMode(mode, now):
            return _obey(replace(life, here=mode), life, "kill-job" if now else "stop-job")
        case AuthorizationSeen(expired):
            return replace(life, expired=expired), ("report",) if expired != life.expired else ()
        case ExpiryGraceOver() if life.expired and life.slot == "running":
            return replace(life, slot="stopping"), ("stop-job", "report")
        case LeaveAsked(how):
            return _leave(life, how)
        case _:
            return _work(life, event)


def _work(life: Life, event: Event) -> Step:
    """Events of the one slot."""
    at_work = life.standing in ("starting", "connected")
    match event, life.slot:
        case OfferSeen(obstacle), _ if at_work:
            reason = _reason_to_decline(life) or obstacle
            return (life, (Decline(reason),)) if reason else (replace(life, slot="accepting"), ("accept",))
        case OfferGranted(), "accepting" if life.mode == "run":
            return replace(life, slot="running"), ("spawn", "report")
        case OfferGranted(), "accepting":
            return _free(life, "give-back")
        case OfferGone(), "accepting":
            return _free(life)
        case HeldFound(), "free" if at_work:
            return replace(life, slot="stopping"), ()
        case JobExited(), "running" | "stopping":
            return replace(life, slot="finishing"), ()
        case JobGone(), "running" | "finishing" | "stopping":
            return _free(life)
        case CancelOrdered(), "running":
            return replace(life, slot="stopping"), ("cancel-job", "report")
        case Superseded(), "running" | "finishing" | "stopping":
            return replace(life, slot="stopping"), ("discard-job",)
        case _:
            return life, ()


def _obey(new: Life, old: Life, how: Do) -> Step:
    """A mode changed: tell the coordinator, and stop the job where stop is the word now."""
    changed: tuple[Action, ...] = ("report",) if new != old else ()
    if new.mode == "stop" and new.slot == "running":
        return replace(new, slot="stopping"), (how, *changed)
    if how == "kill-job" and new.mode == "stop" and new.slot == "stopping":
        return new, ("kill-job", *changed)
    return new, changed


def _leave(life: Life, how: Literal["drain", "checkpoint", "now"]) -> Step:
    leaving = replace(life, leaving=stricter(life.leaving, "drain" if how == "drain" else "stop"))
    if life.slot == "free":
        return leaving, ("leave",)
    return _obey(leaving, life, "kill-job" if how == "now" else "stop-job")


def _free(life: Life, *first: Do) -> Step:
    """The slot is free: leave, if that was asked, or say so."""
    return replace(life, slot="free"), (*first, "report" if life.leaving == "run" else "leave")


def _put_out(life: Life, standing: Literal["revoked", "unpaired"]) -> Step:
    kill: tuple[Action, ...] = ("discard-job",) if life.slot not in ("free", "accepting") else ()
    slot: Slot = "stopping" if kill else "free"
    return Life(standing, slot, here=life.here, leaving=life.leaving), (*kill, "wipe")


def _reason_to_decline(life: Life) -> str:
    if life.slot != "free":
        return "busy"
    if life.expired:
        return "authorization-expired"
    if life.standing != "connected" or life.leaving != "run":
        return "leaving"
    return {"run": "", "drain": "drained", "stop": "stopped"}[life.mode]
