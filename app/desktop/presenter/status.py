"""Status to picture and words: which icon, which headline, which sentence under it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from app.desktop.presenter.giving_back import promise
from app.desktop.presenter.owner import rules_in_words
from app.desktop.presenter.situation import Link, Situation
from app.desktop.presenter.upcoming import upcoming
from app.desktop.presenter.wording import ago, count, countdown, host_of, left, percent, reasons_in_words
from worker_core.wire.durations import format_duration
from worker_core.wire.status import JobShown, WorkerStatus

IconKey = Literal["hollow", "dotted", "available", "training", "draining", "paused", "offline", "problem"]
ICON_KEYS: tuple[IconKey, ...] = (
    "hollow",
    "dotted",
    "available",
    "training",
    "draining",
    "paused",
    "offline",
    "problem",
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What every face of the desktop shows about the worker."""

    icon: IconKey
    headline: str
    detail: str = ""
    next: str = ""
    """The next thing that happens by itself, and when."""

    @property
    def tooltip(self) -> str:
        return "\n".join(part for part in (f"Stoker – {self.headline}", self.detail, self.next) if part)


def show(situation: Situation, now: datetime | None = None) -> Shown:
    """Decide icon and words for a situation; ``now`` is local time without a zone."""
    status = situation.live
    if status is None:
        return _without_core(situation)
    describe = _STATES.get(status.state)
    if describe is None:
        return Shown(icon="dotted", headline="State unknown", detail=f"The worker says “{status.state}”.")
    return replace(describe(status), next=upcoming(status, now or datetime.now()))


def _without_core(situation: Situation) -> Shown:
    if situation.link in (Link.STARTING, Link.CONNECTED):
        return Shown(icon="dotted", headline="Starting", detail="Looking for the worker on this computer.")
    if situation.link is Link.SILENT:
        since = f" Last heard {ago(situation.age_s)}." if situation.status else ""
        return Shown(icon="problem", headline="Not responding", detail=f"The worker does not answer.{since}")
    if situation.link is Link.ENDED:
        return Shown(icon="offline", headline="Not running", detail="The worker has ended. Start it to take jobs.")
    if situation.link is Link.INCOMPATIBLE:
        return Shown(icon="problem", headline="Versions differ", detail=situation.detail)
    return Shown(icon="problem", headline="The worker did not start", detail=situation.detail)


def _unpaired(status: WorkerStatus) -> Shown:
    return Shown(
        icon="hollow",
        headline="Not paired",
        detail=status.detail or "Pair this computer with a coordinator to take jobs.",
    )


def _pairing(status: WorkerStatus) -> Shown:
    if status.pairing is None:
        return Shown(icon="hollow", headline="Pairing", detail="Asking the coordinator for a code.")
    waiting = f"Code {status.pairing.user_code}, {countdown(status.pairing.expires_in_s)} left."
    return Shown(icon="hollow", headline="Waiting for approval", detail=waiting)


def _connecting(status: WorkerStatus) -> Shown:
    return Shown(icon="dotted", headline="Connecting", detail=f"Connecting to {host_of(status.coordinator)}.")


def _available(status: WorkerStatus) -> Shown:
    return Shown(icon="available", headline="Available", detail=f"Waiting for a job from {_source(status)}.")


def _training(status: WorkerStatus) -> Shown:
    if status.job is None:
        return Shown(icon="training", headline="Training", detail="Preparing the job.")
    headline = f"Training {job_name(status.job)}, {percent(status.job.progress)}"
    detail = _progress(status.job)
    if "coordinator-unreachable" in status.reasons:
        detail = f"{detail} No contact with {host_of(status.coordinator)}{_since(status)}; training goes on."
    return Shown(icon="training", headline=headline, detail=detail)


def _draining(status: WorkerStatus) -> Shown:
    if status.job is None:
        return Shown(icon="draining", headline="Draining", detail="The last job is ending.")
    return Shown(
        icon="draining",
        headline=f"Finishing {job_name(status.job)}, {percent(status.job.progress)}",
        detail=f"{_progress(status.job)} No new job is taken after it.",
    )


def _paused(status: WorkerStatus) -> Shown:
    return Shown(icon="paused", headline="Paused", detail=status.detail or _who_paused(status))


def _who_paused(status: WorkerStatus) -> str:
    if status.given_back is not None:
        words = promise(status.given_back, datetime.now())
        return f"{words}."
    asked = {"drain": "Drained", "stop": "Stopped"}
    by_person = [
        f"{asked[mode]} {where}."
        for mode, where in ((status.mode.here, "on this computer"), (status.mode.console, "in the console"))
        if mode is not None and mode in asked
    ]
    by_rules = rules_in_words(status, datetime.now())
    told = ("drained", "stopped", *(f"owner:{rule.rule}" for rule in status.owner.rules))
    others = tuple(reason for reason in status.reasons if reason not in told)
    words = " ".join(part for part in (*by_person, by_rules, reasons_in_words(others)) if part)
    return words or reasons_in_words(status.reasons) or "No job is taken."


def _offline(status: WorkerStatus) -> Shown:
    detail = f"No contact with {host_of(status.coordinator)}{_since(status)}. The worker keeps trying."
    return Shown(icon="offline", headline="Offline", detail=detail)


def _problem(status: WorkerStatus) -> Shown:
    detail = status.detail or reasons_in_words(status.reasons) or "The worker cannot go on."
    return Shown(icon="problem", headline="Needs attention", detail=detail)


def _expired(status: WorkerStatus) -> Shown:
    detail = status.detail or "Renew this worker in the console to go on."
    return Shown(icon="problem", headline="Authorization expired", detail=detail)


def _revoked(status: WorkerStatus) -> Shown:
    detail = status.detail or "This worker was revoked. Pair it again to take jobs."
    return Shown(icon="problem", headline="Revoked", detail=detail)


_STATES: dict[str, Callable[[WorkerStatus], Shown]] = {
    "unpaired": _unpaired,
    "pairing": _pairing,
    "connecting": _connecting,
    "available": _available,
    "training": _training,
    "draining": _draining,
    "paused": _paused,
    "offline": _offline,
    "problem": _problem,
    "expired": _expired,
    "revoked": _revoked,
}


def job_name(job: JobShown) -> str:
    """Return what to call a job: its name, else its id."""
    return job.name or job.id


def _progress(job: JobShown) -> str:
    """Return phase, step and time left as one sentence."""
    parts = [job.phase, f"step {count(job.step)}" if job.step else "", left(job.eta_s)]
    words = ", ".join(part for part in parts if part)
    return f"{words[0].upper()}{words[1:]}." if words else "Starting."


def _since(status: WorkerStatus) -> str:
    return "" if status.contact_age_s is None else f" for {format_duration(status.contact_age_s)}"


def _source(status: WorkerStatus) -> str:
    place = host_of(status.coordinator)
    return f"the coordinator on {place}" if place == "this computer" else place
