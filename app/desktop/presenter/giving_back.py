"""“Give me my GPU back”: for how long, what it costs now, and how fast it was kept."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from worker_core.wire.durations import format_duration
from worker_core.wire.status import GivenBackShown, WorkerStatus

MORNING_HOUR = 8
YEAR_S = 366 * 86400.0
NIGHT_ENDS_HOUR = 5
"""Before this hour a person who is awake means the morning that comes next, not the one after it."""
_FOR_S = {"30m": 1800.0, "1h": 3600.0, "4h": 4 * 3600.0}
CHOICE_IDS = (*_FOR_S, "morning", "me")


@dataclass(frozen=True)
class Choice:
    """One length of time, by its id and its words."""

    id: str
    label: str


def choices(now: datetime) -> tuple[Choice, ...]:
    """Return what a person can choose from, in order."""
    return (
        Choice("30m", "For &30 minutes"),
        Choice("1h", "For &1 hour"),
        Choice("4h", "For &4 hours"),
        Choice("morning", "Until &08:00 today" if now.hour < NIGHT_ENDS_HOUR else "Until tomorrow &08:00"),
        Choice("me", "Until I &resume"),
    )


def until(choice: str, now: datetime) -> float | None:
    """Return the end of a choice in seconds since 1970; None means until a person resumes.

    ``now`` is local time without a zone; the morning is 08:00 as clocks here will show it, also over a change of the
    daylight saving time.
    """
    if choice in _FOR_S:
        return now.timestamp() + _FOR_S[choice]
    if choice != "morning":
        return None
    day = now if now.hour < NIGHT_ENDS_HOUR else now + timedelta(days=1)
    return day.replace(hour=MORNING_HOUR, minute=0, second=0, microsecond=0).timestamp()


def cost(status: WorkerStatus | None) -> str:
    """Say what stopping costs now."""
    job = status.job if status is not None else None
    if job is None:
        return "Nothing is running: nothing is lost"
    if job.checkpoint_age_s is None:
        return "Saves a checkpoint first; there is none yet"
    if job.checkpoint_age_s < 1:
        return "Loses nothing"
    return f"Saves a checkpoint first; loses at most {format_duration(job.checkpoint_age_s)} of work"


def promise(given: GivenBackShown | None, now: datetime) -> str:
    """Say what became of it: being freed, freed in so many seconds, and when jobs come back."""
    if given is None:
        return ""
    if not given.freed:
        return "Saving a checkpoint and freeing the GPU"
    if given.freed_s is None or given.freed_s < 0.5:
        return f"The GPU is {ends(given, now)}"
    return f"Freed in {format_duration(max(1.0, given.freed_s))}; {ends(given, now)}"


def ends(given: GivenBackShown, now: datetime) -> str:
    """Say when jobs are taken again."""
    return "yours until you resume" if given.until is None else f"yours until {clock_time(given.until, now)}"


def clock_time(moment: float, now: datetime) -> str:
    """Return a moment (seconds since 1970) as a person here says it: ``14:30``, ``tomorrow 08:00``, ``4 May 08:00``."""
    if not abs(moment - now.timestamp()) < YEAR_S:  # also what is no number
        return "in more than a year"
    local = datetime.fromtimestamp(moment)
    days = (local.date() - now.date()).days
    clock = f"{local:%H:%M}"
    if days == 0:
        return clock
    if days == 1:
        return f"tomorrow {clock}"
    return f"{local.day} {local:%b} {clock}"
