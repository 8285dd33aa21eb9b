"""The next thing that will happen by itself, and when, in one sentence."""

from datetime import datetime

from app.desktop.presenter.giving_back import clock_time
from worker_core.wire.durations import format_duration
from worker_core.wire.status import WorkerStatus

SOON_S = 86400.0


def upcoming(status: WorkerStatus, now: datetime) -> str:
    """Return what comes next; empty when nothing is known to come.

    ``now`` is local time without a zone. What comes first is said; an authorization that ends is said before a job
    that goes on after it.
    """
    given, job, authorization = status.given_back, status.job, status.authorization
    if given is not None and given.until is not None:
        return f"Takes jobs again {_at(given.until, now)}."
    changes_at = status.owner.changes_at
    if changes_at is not None and any(rule.rule == "hours" for rule in status.owner.rules):
        return f"Takes jobs again {_at(changes_at, now)}."
    left_s = authorization.remaining_s if authorization is not None and status.state != "expired" else None
    ends_soon = left_s is not None and 0 < left_s <= SOON_S
    if ends_soon and not (job is not None and job.eta_s is not None and job.eta_s < (left_s or 0.0)):
        return f"The authorization ends in {format_duration(left_s or 0.0)}."
    if changes_at is not None and (job is None or job.eta_s is None or now.timestamp() + job.eta_s > changes_at):
        return f"Your hours end {_at(changes_at, now)}."
    if job is None or job.eta_s is None:
        return ""
    done = f"Done {_at(now.timestamp() + job.eta_s, now)}"
    return f"{done}, then paused." if status.state == "draining" else f"{done}, if it goes on like this."


def _at(moment: float, now: datetime) -> str:
    words = clock_time(moment, now)
    return f"at {words}" if words[0].isdigit() and " " not in words else words
