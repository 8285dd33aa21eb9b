"""The worker's life as a pure state machine: what happened in, what to do out.

A life is a few small facts: how the worker stands with its coordinator, what its one slot does, the modes wanted by
console, workstation and a person who quits, and what keeps it from taking work. The phase that docs and faces speak of
follows from them (:attr:`Life.phase`). Being without contact is no phase but an overlay: it changes nothing here,
until it has lasted as long as the lease of a running job (:attr:`Life.at_risk`).
"""

from dataclasses import dataclass, replace
from typing import Literal

from worker_core.core.life_events import (
    AuthorizationSeen,
    CancelOrdered,
    ConflictSeen,
    ConsoleMode,
    Event,
    ExpiryGraceOver,
    HeldFound,
    JobExited,
    JobGone,
    KeystoreOpened,
    KeystoreRefused,
    LeaseHeld,
    LeaseLapsed,
    LeaveAsked,
    LocalMode,
    OfferGone,
    OfferGranted,
    OfferSeen,
    OfflineTooLong,
    OwnerMode,
    PairingApproved,
    PairingBegun,
    PairingEnded,
    Quarantined,
    Revoked,
    SessionOpened,
    Superseded,
    Unpaired,
    UpgradeAsked,
)
from worker_core.wire.vocabulary import Mode, stricter

Standing = Literal["unpaired", "pairing", "locked", "starting", "connected", "conflict", "revoked"]
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
    "upgrading",
    "quarantined",
    "conflict",
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
    owner: Mode = "run"
    """What the owner's own time with the machine asks for."""
    leaving: Mode = "run"
    """``drain`` or ``stop`` once this process has been asked to end."""
    expired: bool = False
    outdated: bool = False
    """The coordinator takes no work of this version."""
    unconfirmed: bool = False
    """The coordinator waits for a person to confirm this worker."""
    contested: bool = False
    """Another machine used this worker's key, and a person has not decided yet."""
    at_risk: bool = False
    """The running job's lease may have gone to another; the next answer decides."""

    @property
    def mode(self) -> Mode:
        """The mode to obey: the strictest of all."""
        return stricter(stricter(self.console, self.here), stricter(self.owner, self.leaving))

    @property
    def takes_work(self) -> bool:
        """Whether an offer would be accepted."""
        barred = self.expired or self.outdated or self.unconfirmed or self.contested
        return self.standing == "connected" and self.slot == "free" and self.mode == "run" and not barred

    @property
    def phase(self) -> Phase:
        """The one word for all this."""
        if self.standing in ("unpaired", "pairing", "locked", "revoked"):
            return self.standing
        if self.standing == "starting":
            return "starting" if self.slot == "free" else "resuming"
        if self.slot in ("accepting", "finishing", "stopping"):
            return self.slot
        if self.standing == "conflict" and self.slot == "free":
            return "conflict"
        if self.expired:
            return "expired"
        if self.slot == "running":
            return "busy" if self.mode == "run" and not self.outdated else "draining"
        return self._idle()

    def _idle(self) -> Phase:
        if self.outdated:
            return "upgrading"
        return "quarantined" if self.unconfirmed or self.contested else _IDLE[self.mode]


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
            return Life("starting", here=life.here, owner=life.owner, leaving=life.leaving), ("connect",)
        case PairingEnded() if life.standing == "pairing":
            return replace(life, standing="unpaired"), ("forget-key",)
        case KeystoreRefused() if life.standing == "starting":
            return replace(life, standing="locked"), ()
        case KeystoreOpened() if life.standing == "locked":
            return replace(life, standing="starting"), ("connect",)
        case SessionOpened() if life.standing in ("starting", "conflict"):
            return replace(life, standing="connected"), ()
        case ConflictSeen() if life.standing in ("starting", "connected"):
            return replace(life, standing="conflict"), ()
        case UpgradeAsked(asked) if life.standing in ("starting", "connected"):
            return replace(life, outdated=asked), ("report",) if asked != life.outdated else ()
        case Quarantined(held, contested) if life.standing in ("starting", "connected", "conflict"):
            changed = (held, contested) != (life.unconfirmed, life.contested)
            return replace(life, unconfirmed=held, contested=contested), ("report",) if changed else ()
        case Revoked() | Unpaired() if life.standing in ("locked", "starting", "connected", "conflict"):
            return _put_out(life, "revoked" if isinstance(event, Revoked) else "unpaired")
        case ConsoleMode(mode):
            return _obey(replace(life, console=mode), life, "stop-job")
        case LocalMode(mode, now):
            return _obey(replace(life, here=mode), life, "kill-job" if now else "stop-job")
        case OwnerMode(mode):
            return _obey(replace(life, owner=mode), life, "stop-job")
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
    at_work = life.standing in ("starting", "connected", "conflict")
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
        case LeaseLapsed(stop=True), "running":
            return replace(life, slot="stopping", at_risk=True), ("stop-job",)
        case LeaseLapsed(), "running":
            return replace(life, at_risk=True), ()
        case OfflineTooLong(), "running" if life.at_risk:
            return replace(life, slot="stopping"), ("stop-job",)
        case LeaseHeld(), "running" if life.at_risk:
            return replace(life, at_risk=False), ()
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
    return replace(life, slot="free", at_risk=False), (*first, "report" if life.leaving == "run" else "leave")


def _put_out(life: Life, standing: Literal["revoked", "unpaired"]) -> Step:
    kill: tuple[Action, ...] = ("discard-job",) if life.slot not in ("free", "accepting") else ()
    slot: Slot = "stopping" if kill else "free"
    return Life(standing, slot, here=life.here, owner=life.owner, leaving=life.leaving), (*kill, "wipe")


def _reason_to_decline(life: Life) -> str:
    if life.slot != "free":
        return "busy"
    if life.expired:
        return "authorization-expired"
    if life.standing != "connected" or life.leaving != "run":
        return "leaving"
    if life.outdated or life.unconfirmed:
        return "upgrade-required" if life.outdated else "confirm-needed"
    if life.contested:
        return "credential-conflict"
    return {"run": "", "drain": "drained", "stop": "stopped"}[life.mode]
