"""From what the core knows to what a person sees: pure, and true or with its age."""

from dataclasses import dataclass, field

from worker_core.core.enrollment import Enrollment, Farewell
from worker_core.core.giving_back import REASON as GIVEN_BACK
from worker_core.core.life import Life
from worker_core.core.recent_ends import RecentEnds
from worker_core.core.troubles import clock_words
from worker_core.wire.durations import format_duration
from worker_core.wire.session import Authorization
from worker_core.wire.status import (
    AuthorizationShown,
    ContainmentShown,
    DeviceLoad,
    GivenBackShown,
    GpuShown,
    JobShown,
    ModesShown,
    OutboxShown,
    OwnerShown,
    PairingShown,
    UpdateShown,
    WorkerShown,
    WorkerStatus,
)
from worker_core.wire.versions import is_older
from worker_core.wire.vocabulary import Reason, WorkerState, stricter

CLOCK_WRONG_FROM_S = 300.0
_BLOCKING: tuple[Reason, ...] = (
    "disk-full",
    "journal-unwritable",
    "outbox-full",
    "device-missing",
    "gpu-silent",
    "cannot-authenticate",
    "wrong-coordinator",
    "gpu-quarantined",
    "no-containment",
    "job-stuck",
)
"""Troubles that need a person: with most of them no job can be taken. Others are told beside the state."""
_BARRED: dict[Reason, str] = {
    "credential-conflict": "Another machine uses this worker's key. A person decides in the console which may stay.",
    "upgrade-required": "The coordinator takes work only of a newer Stoker. Update this one; a running job goes on.",
    "confirm-needed": "The coordinator was restored from a backup. A person has to confirm it in the console.",
}
"""Why a worker that is paired gets no offers, by what its life says; each needs a person."""
_OF_THE_DISK: tuple[Reason, ...] = ("disk-full", "journal-unwritable")
"""Troubles that stand beside every state, also that of a worker without a coordinator."""
_TELLS_WHY_OFFLINE = ("coordinator-unreachable", "cannot-authenticate", "wrong-coordinator", "clock-wrong")


@dataclass(frozen=True)
class Facts:
    """All that the core knows about itself at one moment."""

    life: Life
    pid: int
    version: str
    started_by: str
    stale_s: float = 45.0
    contact_age_s: float | None = None
    """Seconds since the coordinator answered; since the start of the core, while it has not answered at all."""
    contacted: bool = False
    """Whether it has answered since the start of the core."""
    console_seen: bool = False
    clock_offset_s: float = 0.0
    enrollment: Enrollment | None = None
    foreign: Enrollment | None = None
    farewell: Farewell | None = None
    authorization: Authorization | None = None
    authorization_age_s: float = 0.0
    troubles: dict[Reason, str] = field(default_factory=dict[Reason, str])
    """Reason codes that hold now, each with a sentence for a person."""
    job: JobShown | None = None
    gpus: tuple[GpuShown, ...] = ()
    load: DeviceLoad = field(default_factory=DeviceLoad)
    outbox: OutboxShown = field(default_factory=OutboxShown)
    containment: ContainmentShown = field(default_factory=ContainmentShown)
    pairing: PairingShown | None = None
    credential_store: str | None = None
    embedded_coordinator: bool = False
    given_back: GivenBackShown | None = None
    owner: OwnerShown = field(default_factory=OwnerShown)
    owner_reasons: tuple[Reason, ...] = ()
    ends: RecentEnds = field(default_factory=RecentEnds)
    coordinator_version: str = ""
    may_run_s: float = 0.0
    """For how long a job whose lease may be lost runs on without contact."""


def show(facts: Facts) -> WorkerStatus:
    """Return the worker's status."""
    state = _state(facts)
    enrollment = facts.enrollment
    return WorkerStatus(
        state=state,
        reasons=_reasons(facts, state),
        mode=ModesShown(console=facts.life.console if facts.console_seen else None, here=facts.life.here),
        worker=_worker(enrollment),
        coordinator=enrollment.coordinator if enrollment else None,
        contact_age_s=facts.contact_age_s if enrollment and facts.contacted else None,
        authorization=_authorization(facts),
        job=facts.job,
        gpus=facts.gpus,
        load=facts.load,
        outbox=facts.outbox,
        containment=facts.containment,
        credential_store=facts.credential_store,
        pairing=facts.pairing,
        detail=_detail(facts, state),
        pid=facts.pid,
        version=facts.version,
        started_by=facts.started_by,
        embedded_coordinator=facts.embedded_coordinator,
        job_ends=facts.ends.count,
        ended=facts.ends.shown(),
        update=_update(facts),
        given_back=facts.given_back,
        owner=facts.owner,
    )


def _state(facts: Facts) -> WorkerState:
    phase = facts.life.phase
    match phase:
        case "unpaired" | "pairing" | "revoked" | "expired":
            return phase
        case "locked" | "conflict" | "upgrading" | "quarantined":
            return "problem"
        case "accepting" | "busy" | "finishing":
            return "training"
        case "draining":
            return "draining"
        case "stopping" if facts.life.mode != "stop":
            return "training"
        case "stopping":
            return "paused"
        case _ if _without_contact(facts) and facts.life.slot == "free":
            return "offline"
        case "starting" | "resuming":
            return "problem" if _blocked(facts) else "connecting"
        case "ready" | "drained" | "paused":
            return "problem" if _blocked(facts) else "available" if phase == "ready" else "paused"


def _without_contact(facts: Facts) -> bool:
    if facts.life.standing == "locked":
        return False  # without its key it has not even tried
    return facts.contact_age_s is not None and facts.contact_age_s > facts.stale_s


def _blocked(facts: Facts) -> bool:
    return any(reason in facts.troubles for reason in _BLOCKING)


def _reasons(facts: Facts, state: WorkerState) -> tuple[Reason, ...]:
    if state in ("unpaired", "pairing", "revoked"):
        copied = ("copied-home",) if facts.foreign is not None else ()
        return (*copied, *(reason for reason in facts.troubles if reason in _OF_THE_DISK))
    reasons: list[Reason] = []
    if state in ("paused", "draining", "problem", "offline") or facts.life.slot != "free":
        asked = stricter(stricter(facts.life.console, facts.life.here), facts.life.leaving)
        reasons += {"run": [], "drain": ["drained"], "stop": ["stopped"]}[asked]
        reasons += [GIVEN_BACK] if facts.given_back is not None else []
        reasons += facts.owner_reasons
    if _without_contact(facts):
        reasons.append("coordinator-unreachable")
    reasons += _barred(facts.life)
    if abs(facts.clock_offset_s) > CLOCK_WRONG_FROM_S:
        reasons.append("clock-wrong")
    reasons += [reason for reason in facts.troubles if reason not in reasons]
    return tuple(reasons)


def _update(facts: Facts) -> UpdateShown | None:
    if facts.enrollment is None or not is_older(facts.version, facts.coordinator_version):
        return None
    return UpdateShown(version=facts.coordinator_version, required=facts.life.outdated)


def _barred(life: Life) -> list[Reason]:
    holds = {
        "credential-conflict": life.standing == "conflict" or life.contested,
        "upgrade-required": life.outdated,
        "confirm-needed": life.unconfirmed,
    }
    return [reason for reason in _BARRED if holds[reason]]


def _worker(enrollment: Enrollment | None) -> WorkerShown | None:
    if enrollment is None:
        return None
    return WorkerShown(
        id=enrollment.worker_id,
        name=enrollment.worker_name,
        account=enrollment.account,
        approved_by=enrollment.approved_by,
    )


def _authorization(facts: Facts) -> AuthorizationShown | None:
    seen = facts.authorization
    if seen is None:
        return None
    return AuthorizationShown(
        expires_at=seen.expires_at,
        remaining_s=max(0.0, seen.remaining_s - facts.authorization_age_s),
        extend_while_healthy=seen.extend_while_healthy,
    )


def _at_risk(facts: Facts) -> str:
    """Say what becomes of a job whose lease may be lost; each figure is of this moment."""
    silent = format_duration(facts.contact_age_s or 0.0)
    left = f"runs on for {format_duration(facts.may_run_s)} more, then it is saved and stopped"
    return f"No answer for {silent}: another worker may have the job now. Here it {left}; nothing of it is lost."


def _detail(facts: Facts, state: WorkerState) -> str:
    farewell = facts.farewell
    if state == "unpaired" and facts.foreign is not None:
        whose = f"{facts.foreign.worker_name} of {facts.foreign.account}"
        return f"These files were copied from the computer of {whose}. Its key is not used here: pair this computer."
    if state == "revoked" and farewell is not None:
        why = f": {farewell.reason}" if farewell.reason else ""
        key = f"{farewell.key_left} Pair" if farewell.key_left else "Its key is gone; pair"
        return f"Revoked by {farewell.by} at {farewell.revoked_at}{why}. {key} again to go on."
    if state == "expired":
        return "The authorization has expired. A person can renew it in the console."
    barred = _barred(facts.life)
    if barred and state == "problem" and "cannot-authenticate" not in facts.troubles:
        return facts.troubles.get(barred[0], _BARRED[barred[0]])
    if facts.life.at_risk and facts.life.slot == "running":
        return _at_risk(facts)
    first = _BLOCKING if state == "problem" else _TELLS_WHY_OFFLINE
    for reason in (*first, *facts.troubles):
        if reason in facts.troubles:
            return facts.troubles[reason]
    return clock_words(facts.clock_offset_s) if abs(facts.clock_offset_s) > CLOCK_WRONG_FROM_S else ""
