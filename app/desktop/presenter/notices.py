"""What is worth a notification, and what of it is due: each thing once, however often it is seen or Stoker started.

A notice is told by what holds now, never by a change that was seen: a tray that was not there when a job ended, or
slept, tells it later, and one that sees the same thing twice stays silent. What was told is remembered by its key.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.desktop.presenter.wording import reason_in_words
from worker_core.wire.durations import format_duration
from worker_core.wire.failure_rules import cure_of
from worker_core.wire.status import EndedShown, WorkerStatus
from worker_core.wire.vocabulary import Reason

NoticeAction = Literal["open", "snooze", "give-back", "renew"]
Level = Literal["all", "important", "off"]
ACTION_WORDS: dict[NoticeAction, str] = {
    "open": "Open",
    "snooze": "Snooze for 1 h",
    "give-back": "Give back for 1 h",
    "renew": "Renew",
}

DAY_S = 86400.0
ENDS_SOON_S = DAY_S
EXTENDS_UNTIL_S = 3600.0
"""An authorization that extends itself is told of only when so little of it is left."""
SETTLE_S = 30.0
"""How long trouble that may pass by itself has to last before somebody is called."""
FORGET_S = 600.0
"""A trouble that was gone for so long is told again when it returns."""
KEEP_S = 40 * DAY_S
MOST_KEPT = 200
MOST_AT_ONCE = 2
"""More jobs than this that ended while nobody could be told are told in one notice."""
_AT_ONCE: tuple[Reason, ...] = ("gpu-quarantined", "disk-full")
_NEEDS_A_PERSON: tuple[Reason, ...] = (
    "keystore-locked",
    "clock-wrong",
    "cannot-authenticate",
    "wrong-coordinator",
    "credential-conflict",
    "confirm-needed",
    "journal-unwritable",
    "device-missing",
    "gpu-silent",
    "no-containment",
    "job-stuck",
)


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something a person may want to know."""

    key: str
    """The same for the same thing, so that it is told once."""
    topic: str
    """A later notice on the same topic takes the place of an earlier one on the screen."""
    headline: str
    text: str
    important: bool = True
    actions: tuple[NoticeAction, ...] = ("open", "snooze")
    opens: str = "status"
    """The command that Open stands for."""
    settle_s: float = 0.0
    at: float | None = None
    """When it happened (seconds since 1970); None for what holds until it is cured."""


@dataclass(frozen=True)
class Memory:
    """What was told. ``born`` is when the first tray of this home began: nothing earlier is news."""

    born: float
    told: Mapping[str, float] = field(default_factory=dict[str, float])
    """Key to the last moment at which the thing held."""
    waiting: Mapping[str, float] = field(default_factory=dict[str, float])
    """Key to the moment since which an untold thing holds; not kept over a restart."""


@dataclass(frozen=True, kw_only=True)
class Quiet:
    """What keeps notices back: the level a person chose, a snooze, the first moments after a start or a sleep."""

    level: Level = "all"
    until: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What to do now."""

    memory: Memory
    show: tuple[Notice, ...] = ()
    look_again_s: float | None = None
    """When something may be due without any news; None when nothing waits."""


def decide(memory: Memory, due: Iterable[Notice], quiet: Quiet, now: float) -> Outcome:
    """Decide what to show of what holds, and what to remember."""
    held = {notice.key: notice for notice in due}
    told = dict(memory.told)
    waiting: dict[str, float] = {}
    show: list[Notice] = []
    for notice in held.values():
        since = memory.waiting.get(notice.key, now)
        if notice.key in told or _is_old(notice, memory, now):
            told[notice.key] = now
        elif not _is_wanted(notice, quiet.level):
            # What happened is over when somebody wants notices again; what holds may be told then.
            told |= {notice.key: now} if notice.at is not None else {}
        elif max(quiet.until, since + notice.settle_s) <= now:
            show.append(notice)
            told[notice.key] = now
        else:
            waiting[notice.key] = since
    moments = [max(quiet.until, since + held[key].settle_s) for key, since in waiting.items()]
    kept = Memory(born=memory.born, told=_prune(told, held, now), waiting=waiting)
    wait_s = max(0.1, min(moments) - now) if moments else None
    return Outcome(memory=kept, show=_gathered(show), look_again_s=wait_s)


def _is_old(notice: Notice, memory: Memory, now: float) -> bool:
    return notice.at is not None and (notice.at < memory.born or now - notice.at > DAY_S)


def _is_wanted(notice: Notice, level: Level) -> bool:
    return level == "all" or (level == "important" and notice.important)


def _prune(told: Mapping[str, float], held: Mapping[str, Notice], now: float) -> dict[str, float]:
    """Forget troubles that are over, and what happened long ago."""
    kept = {
        key: last
        for key, last in told.items()
        if key in held or now - last < (FORGET_S if key.startswith("trouble:") else KEEP_S)
    }
    newest = sorted(kept, key=lambda key: (key in held, kept[key]), reverse=True)[:MOST_KEPT]
    return {key: kept[key] for key in newest}


def _gathered(show: list[Notice]) -> tuple[Notice, ...]:
    """Tell many jobs that ended at once as one thing."""
    jobs = [notice for notice in show if notice.topic == "job"]
    if len(jobs) <= MOST_AT_ONCE:
        return tuple(show)
    failed = sum(notice.important for notice in jobs)
    words = f"{len(jobs) - failed} done, {failed} failed." if failed else "All of them are done."
    one = Notice(
        key=jobs[-1].key,
        topic="job",
        headline=f"{len(jobs)} jobs have ended",
        text=words,
        important=failed > 0,
        actions=jobs[-1].actions,
        opens=jobs[-1].opens,
    )
    return (*(notice for notice in show if notice.topic != "job"), one)


def due(status: WorkerStatus) -> tuple[Notice, ...]:
    """Return everything about a worker that is worth telling now, told before or not."""
    return (
        *(_ended(ended) for ended in status.ended if ended.outcome in ("succeeded", "failed")),
        *_authorization(status),
        *_revoked(status),
        *_update(status),
        *_gpus(status),
        *_troubles(status),
    )


def _ended(ended: EndedShown) -> Notice:
    name = ended.name or ended.job_id
    failed = ended.outcome == "failed"
    why = " ".join(part for part in (_sentence(ended.message), cure_of(ended.failure)) if part)
    return Notice(
        key=f"job:{ended.attempt_id}",
        topic="job",
        headline=f"{name} failed" if failed else f"{name} is done",
        text=(why or "The log says more.") if failed else "Its results are on their way to the coordinator.",
        important=failed,
        actions=("open", "snooze") if failed else ("open", "give-back", "snooze"),
        opens="jobs",
        at=ended.at,
    )


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    short = line if len(line) <= 160 else line[:159].rstrip() + "…"
    return short if not short or short[-1] in ".!?…" else f"{short}."


def _authorization(status: WorkerStatus) -> Iterable[Notice]:
    seen = status.authorization
    if seen is None or status.state == "revoked":
        return
    if status.state == "expired" or seen.remaining_s <= 0:
        yield Notice(
            key=f"expired:{seen.expires_at}",
            topic="authorization",
            headline="The authorization has expired",
            text="No new job is taken until somebody renews this worker in the console.",
            actions=("renew", "open", "snooze"),
            opens="renew",
        )
    elif seen.remaining_s <= (EXTENDS_UNTIL_S if _extends_itself(status) else ENDS_SOON_S):
        yield Notice(
            key=f"authorization:{seen.expires_at}",
            topic="authorization",
            headline=f"The authorization ends in {format_duration(seen.remaining_s)}",
            text="Renew this worker in the console, so that it goes on taking jobs.",
            actions=("renew", "open", "snooze"),
            opens="renew",
        )


def _extends_itself(status: WorkerStatus) -> bool:
    seen = status.authorization
    return seen is not None and seen.extend_while_healthy and "asks-for-renewal" not in status.reasons


def _revoked(status: WorkerStatus) -> Iterable[Notice]:
    if status.state == "revoked":
        detail = status.detail or "Pair this computer again to take jobs."
        # The detail names the moment of the revocation, so the next one is told too.
        yield Notice(key=f"revoked:{status.detail}", topic="authorization", headline="Revoked", text=detail)


def _update(status: WorkerStatus) -> Iterable[Notice]:
    """A newer Stoker is no reason to disturb a job."""
    update = status.update
    if update is None or status.job is not None:
        return
    text = "No job is offered until this worker is updated." if update.required else "The coordinator has it already."
    yield Notice(
        key=f"update:{update.version}:{update.required}",
        topic="update",
        headline=f"Stoker {update.version} is available",
        text=text,
        important=update.required,
        opens="update",
    )


def _gpus(status: WorkerStatus) -> Iterable[Notice]:
    for gpu in status.gpus:
        if gpu.held == "gpu-quarantined":
            yield Notice(
                key=f"trouble:gpu:{gpu.uuid}",
                topic=f"gpu:{gpu.uuid}",
                headline=f"{gpu.name} gets no more jobs",
                text="It failed too often. Test it again in the settings, or look at its driver.",
            )


def _troubles(status: WorkerStatus) -> Iterable[Notice]:
    quarantined = any(gpu.held == "gpu-quarantined" for gpu in status.gpus)
    for reason in status.reasons:
        known = reason in _NEEDS_A_PERSON or reason in _AT_ONCE
        if not known or (reason == "gpu-quarantined" and quarantined):
            continue
        yield Notice(
            key=f"trouble:{reason}",
            topic=f"trouble:{reason}",
            headline="The disk is full" if reason == "disk-full" else "Stoker needs your attention",
            text=reason_in_words(reason),
            settle_s=0.0 if reason in _AT_ONCE else SETTLE_S,
        )
