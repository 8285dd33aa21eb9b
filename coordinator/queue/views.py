"""Jobs, attempts and artifacts as people see them."""

from collections.abc import Sequence

from sqlalchemy import Connection

from coordinator.accounts.presence import Presence
from coordinator.clock import rfc3339
from coordinator.queue.reasons import Standing, standings, why_waiting
from coordinator.queue.rows import Attempt, Job, find_attempt, progress_at_resume
from coordinator.storage.artifacts import Artifact
from worker_core.wire.client import ArtifactView, AttemptView, CurrentJob, FlagView, JobView
from worker_core.wire.failure_rules import cure_of


class Viewer:
    """Makes views of one account's jobs within one transaction; looks at its workers once, and only if it must."""

    def __init__(self, conn: Connection, presence: Presence, account_id: str, now: float) -> None:
        self._conn = conn
        self._presence = presence
        self._account_id = account_id
        self._now = now
        self._workers: list[Standing] | None = None

    def job(self, job: Job, attempts: Sequence[Attempt] = (), *, with_spec: bool = False) -> JobView:
        """Return how a job is shown."""
        newest = self._newest(job)
        # What a lost or stopped attempt reached is not what the next one starts from.
        step, progress = (newest.step, newest.progress) if newest else self._resumed(job)
        running = newest is not None and job.state in ("running", "canceling")
        return JobView(
            id=job.id,
            state=job.state,
            offered=job.offered_attempt is not None,
            kind=job.kind,
            name=job.name,
            attempt=job.ordinal,
            worker=newest.worker_name if newest else None,
            reason=self._reason(job),
            created_at=rfc3339(job.created_at),
            started_at=_time(job.started_at),
            ended_at=_time(job.ended_at),
            step=step,
            progress=1.0 if job.state == "succeeded" else progress,
            eta_s=newest.eta_s if newest and running else None,
            phase=newest.label if newest and running else "",
            flags=tuple(flag for one in attempts or (newest,) if one is not None for flag in flag_views(one)),
            cure=cure_of(newest.failure or "") if newest and job.state == "failed" else "",
            attempts=tuple(attempt_view(attempt) for attempt in attempts if attempt.ordinal),
            spec=job.spec if with_spec else None,
        )

    def _newest(self, job: Job) -> Attempt | None:
        return find_attempt(self._conn, job.current_attempt) if job.current_attempt else None

    def _resumed(self, job: Job) -> tuple[int, float]:
        # What a lost or stopped attempt reached is not what the next one starts from.
        return job.resume_step or 0, progress_at_resume(self._conn, job)

    def _reason(self, job: Job) -> str:
        if job.state == "canceling":
            return f"cancelled by {job.cancel_by}; waiting for the worker to confirm"
        if job.state != "queued":
            return job.reason
        if self._workers is None:
            self._workers = standings(self._conn, self._presence, self._account_id, self._now)
        offer = find_attempt(self._conn, job.offered_attempt) if job.offered_attempt else None
        return why_waiting(job, self._workers, offer.worker_name if offer else "", self._now)


def flag_views(attempt: Attempt) -> list[FlagView]:
    """Return what went wrong in the training of an attempt."""
    return [
        FlagView(attempt=attempt.ordinal, step=flag.step, flag=flag.flag, text=flag.text, action=flag.action)
        for flag in attempt.shown_flags()
    ]


def attempt_view(attempt: Attempt) -> AttemptView:
    """Return how an attempt is shown."""
    return AttemptView(
        id=attempt.id,
        ordinal=attempt.ordinal,
        epoch=attempt.epoch,
        state=attempt.state,
        worker=attempt.worker_name,
        created_at=rfc3339(attempt.created_at),
        ended_at=_time(attempt.ended_at),
        step=attempt.step,
        progress=attempt.progress,
        eta_s=attempt.eta_s,
        error_class=attempt.failure,
        error=attempt.error if not attempt.traceback else f"{attempt.error}\n\n{attempt.traceback}",
        next_seq=attempt.next_seq,
    )


def artifact_view(artifact: Artifact) -> ArtifactView:
    """Return how an artifact is shown."""
    return ArtifactView(
        id=artifact.id,
        name=artifact.name,
        kind=artifact.kind,
        sha256=artifact.sha256,
        size=artifact.size,
        step=artifact.step,
        attempt=artifact.ordinal,
        created_at=rfc3339(artifact.created_at),
        state=artifact.state,
    )


def current_job_view(job: Job, attempt: Attempt, now: float) -> CurrentJob:
    """Return the job of a worker as its card shows it."""
    return CurrentJob(
        id=job.id,
        name=job.name,
        attempt=attempt.ordinal,
        step=attempt.step,
        progress=attempt.progress,
        eta_s=attempt.eta_s,
        checkpoint_age_s=None if attempt.checkpoint_at is None else max(0.0, now - attempt.checkpoint_at),
    )


def _time(unix_s: float | None) -> str | None:
    return None if unix_s is None else rfc3339(unix_s)
