"""Rows of the queue as typed values: a job, an attempt, and the two together."""

import msgspec
from sqlalchemy import Connection, RowMapping, select

from coordinator.queue.eligibility import Needs
from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import job as job_table
from worker_core.wire.problems import problem
from worker_core.wire.signed import Input
from worker_core.wire.status import FlagShown
from worker_core.wire.vocabulary import AttemptState, JobState
from worker_core.wire.work import Limits, ResumePoint


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the job table."""

    id: str
    account_id: str
    kind: str
    name: str
    spec: str
    spec_sha256: str
    inputs: str
    target: str
    limits: str
    priority: int
    max_attempts: int
    max_offline_s: float
    state: JobState
    epoch: int
    ordinal: int
    failures: int
    current_attempt: str | None
    offered_attempt: str | None
    not_before: float
    lost_until: float | None
    cancel_at: float | None
    cancel_by: str
    reason: str
    resume_attempt: str | None
    resume_sha256: str | None
    resume_size: int | None
    resume_step: int | None
    created_by: str
    created_at: float
    started_at: float | None
    ended_at: float | None

    def wanted_files(self) -> tuple[Input, ...]:
        """Return the inputs the job was submitted with."""
        return msgspec.json.decode(self.inputs, type=tuple[Input, ...])

    def wanted_target(self) -> Needs:
        return msgspec.json.decode(self.target, type=Needs)

    def wanted_limits(self) -> Limits:
        return msgspec.json.decode(self.limits, type=Limits)

    def resume_point(self) -> ResumePoint | None:
        """Return the checkpoint the next attempt continues from."""
        if self.resume_attempt is None or self.resume_sha256 is None:
            return None
        return ResumePoint(
            attempt_id=self.resume_attempt,
            step=self.resume_step or 0,
            sha256=self.resume_sha256,
            size=self.resume_size or 0,
        )


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the attempt table."""

    id: str
    job_id: str
    account_id: str
    worker_id: str
    worker_name: str
    ordinal: int
    epoch: int
    state: AttemptState
    offer_until: float
    lease_until: float | None
    decline_until: float | None
    decline_reason: str
    next_seq: int
    start_step: int | None
    first_step: int | None
    phase: str
    label: str
    flags: str
    step: int
    progress: float
    eta_s: float | None
    checkpoint_at: float | None
    created_at: float
    accepted_at: float | None
    ended_at: float | None
    failure: str | None
    error: str | None
    traceback: str | None
    exit_code: int | None
    usage: str | None
    completion_sha256: str | None
    recorded: str | None

    def shown_flags(self) -> tuple[FlagShown, ...]:
        """Return what went wrong in its training, oldest first."""
        return msgspec.json.decode(self.flags, type=tuple[FlagShown, ...])


class Held(msgspec.Struct, frozen=True):
    """An attempt and its job, read in one transaction."""

    attempt: Attempt
    job: Job


def as_job(row: RowMapping) -> Job:
    """Return a full row of the job table as a value."""
    return Job(**row)


def as_attempt(row: RowMapping) -> Attempt:
    """Return a full row of the attempt table as a value."""
    return Attempt(**row)


def find_job(conn: Connection, job_id: str, account_id: str | None = None) -> Job | None:
    """Return a job, of this account where one is given."""
    query = select(job_table).where(job_table.c.id == job_id)
    if account_id is not None:
        query = query.where(job_table.c.account_id == account_id)
    row = conn.execute(query).mappings().first()
    return as_job(row) if row is not None else None


def require_job(conn: Connection, account_id: str, job_id: str) -> Job:
    """Return a job of this account or raise ``not-found``."""
    job = find_job(conn, job_id, account_id)
    if job is None:
        raise problem("not-found", f"no job {job_id}")
    return job


def find_attempt(conn: Connection, attempt_id: str) -> Attempt | None:
    """Return an attempt by its id."""
    row = conn.execute(select(attempt_table).where(attempt_table.c.id == attempt_id)).mappings().first()
    return as_attempt(row) if row is not None else None


def progress_at_resume(conn: Connection, job: Job) -> float:
    """Return the share of a job that is done at its resume point: what its attempt reached, cut to the kept step."""
    attempt = find_attempt(conn, job.resume_attempt) if job.resume_attempt else None
    if attempt is None or not attempt.step:
        return 0.0
    return attempt.progress * min(1.0, (job.resume_step or 0) / attempt.step)


def find_held(conn: Connection, attempt_id: str, worker_id: str) -> Held | None:
    """Return an attempt of this worker with its job."""
    attempt = find_attempt(conn, attempt_id)
    if attempt is None or attempt.worker_id != worker_id:
        return None
    job = find_job(conn, attempt.job_id)
    return Held(attempt, job) if job is not None else None


def attempts_of(conn: Connection, job_id: str) -> list[Attempt]:
    """Return all attempts of a job, oldest first, offers that led nowhere included."""
    query = select(attempt_table).where(attempt_table.c.job_id == job_id).order_by(attempt_table.c.id)
    return [as_attempt(row) for row in conn.execute(query).mappings()]
