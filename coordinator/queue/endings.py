"""How attempts and jobs end, or go back to the queue: completion, release, loss, cancellation, revocation, retry."""

import msgspec
from sqlalchemy import Connection, select

from coordinator.queue.eligibility import facts_of
from coordinator.queue.ledger import Ledger, set_attempt, set_job
from coordinator.queue.rows import Attempt, Held, Job, as_attempt, as_job, find_attempt, find_job
from coordinator.queue.tries import failures_after
from coordinator.storage.artifacts import latest_checkpoint
from coordinator.storage.schema import worker as worker_table
from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import job as job_table
from worker_core.wire.client import RetryStart
from worker_core.wire.codec import encode
from worker_core.wire.failure_rules import rule_of
from worker_core.wire.frames import JobError
from worker_core.wire.problems import problem
from worker_core.wire.vocabulary import (
    JOB_END_STATES,
    LIVE_ATTEMPT_STATES,
    AttemptState,
    JobState,
    Outcome,
)
from worker_core.wire.work import Completion, Release

_RESUME = ("resume_attempt", "resume_sha256", "resume_size", "resume_step")
_RELEASED = {
    "stopped": "worker stopped",
    "shutdown": "worker shut down",
    "crash": "worker crashed",
    "not-held": "worker came back without it",
    "expired": "authorization of the worker expired",
    "offline": "worker had no contact for too long",
}


class Endings:
    """Transitions that end an attempt. Each runs inside one write transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    # -- reported by the worker -------------------------------------------------------------------------------------

    def complete(self, conn: Connection, held: Held, body: Completion, body_sha256: str) -> Outcome:
        """Record how a live attempt ended, and what becomes of its job."""
        outcome = _recorded(held, body.outcome)
        error = body.error
        self._end_attempt(
            conn,
            held.attempt,
            outcome,
            completion_sha256=body_sha256,
            recorded=outcome,
            exit_code=body.exit,
            usage=msgspec.json.encode(body.usage).decode(),
            failure=error.failure if error else None,
            error=error.message if error else None,
            traceback=error.traceback if error else None,
        )
        retry = rule_of(error.failure).retry if error is not None else "never"
        if retry == "other-model":
            self._note_unfit_gpus(conn, held)
        if outcome == "failed" and error is not None and retry != "never":
            self._requeue_failed(conn, held.job, held.attempt, error.failure, _failed(error))
        else:
            self._end_job(conn, held.job, outcome, _last_word(held.job, outcome, error))
        return outcome

    def release(self, conn: Connection, held: Held, reason: str, body: Release | None = None) -> None:
        """Take a job back from the worker that holds it; only a crash counts as a failure."""
        attempt, job = held.attempt, held.job
        if job.state == "canceling":
            self._end_attempt(conn, attempt, "canceled")
            self._end_job(conn, job, "canceled", _canceled_by(job))
            return
        self._end_attempt(conn, attempt, "released", failure="crash" if reason == "crash" else None)
        words = _RELEASED.get(reason, f"worker gave it back: {reason}")
        if reason == "crash":
            self._requeue_failed(conn, job, attempt, "crash", words, body)
        else:
            self._requeue(conn, job, attempt, words, body=body)

    # -- decided here -----------------------------------------------------------------------------------------------

    def lose(self, conn: Connection, attempt: Attempt) -> None:
        """An attempt's lease is over: the job waits a moment, then others may have it."""
        now, settings = self._ledger.clock.now(), self._ledger.settings
        job = find_job(conn, attempt.job_id)
        guard = attempt_table.c.state == "running"
        lost = {"state": "lost", "failure": "lost", "error": "no contact with the worker", "ended_at": now}
        if job is None or not set_attempt(conn, attempt.id, guard, **lost):
            return
        resume = self._resume_values(conn, attempt)
        failures = _count(job, attempt, resume)
        last = failures >= job.max_attempts
        set_job(
            conn,
            job.id,
            job_table.c.state == "running",
            job_table.c.epoch == attempt.epoch,
            state="queued",
            current_attempt=None,
            failures=failures,
            not_before=now + settings.lost_not_before_s,
            lost_until=now + job.max_offline_s if last else None,
            reason="waiting for lost worker" if last else f"lost contact with {attempt.worker_name}",
            **resume,
        )
        self._ledger.changed(conn, job.id)

    def give_up_waiting(self, conn: Connection) -> None:
        """Fail the jobs whose lost worker did not come back in time."""
        over = (job_table.c.state == "queued", job_table.c.lost_until < self._ledger.clock.now())
        for row in conn.execute(select(job_table).where(*over)).mappings():
            self._end_job(conn, as_job(row), "failed", "failed: lost; the worker did not come back")

    def cancel(self, conn: Connection, job: Job, by: str) -> None:
        """Cancel a job: at once while it is queued, else by asking the worker that holds it."""
        now = self._ledger.clock.now()
        if job.state in JOB_END_STATES:
            raise problem(
                "wrong-state", f"the job has {job.state} already; only a job that has not ended can be cancelled"
            )
        if job.state == "canceling":
            return
        if job.state == "queued":
            if job.offered_attempt is not None:
                self._ledger.withdraw(conn, job.offered_attempt)
            self._ledger.end_lost(conn, job.id, "canceled")
            self._end_job(conn, job, "canceled", f"cancelled by {by}", cancel_at=now, cancel_by=by)
            return
        running = (job_table.c.state == "running", job_table.c.epoch == job.epoch)
        set_job(conn, job.id, *running, state="canceling", cancel_at=now, cancel_by=by)
        if job.current_attempt is not None:
            set_attempt(conn, job.current_attempt, attempt_table.c.state == "running", state="canceling")
            attempt = find_attempt(conn, job.current_attempt)
            if attempt is not None:
                self._ledger.wake(conn, attempt.worker_id)
        self._ledger.changed(conn, job.id)

    def force_cancellations(self, conn: Connection) -> None:
        """End cancelled jobs whose worker never answered and whose lease is over; the epoch moves on."""
        now, settings = self._ledger.clock.now(), self._ledger.settings
        asked = (job_table.c.state == "canceling", job_table.c.cancel_at < now - settings.cancel_forced_s)
        for row in conn.execute(select(job_table).where(*asked)).mappings():
            job = as_job(row)
            attempt = find_attempt(conn, job.current_attempt or "")
            if attempt is not None and (attempt.lease_until or 0.0) >= now - settings.lease_slack_s:
                continue
            if attempt is not None:
                self._end_attempt(conn, attempt, "canceled")
            self._end_job(conn, job, "canceled", f"{_canceled_by(job)}; the worker never answered", epoch=job.epoch + 1)

    def fence_worker(self, conn: Connection, worker_id: str) -> None:
        """A worker was revoked: nothing it holds may write again, and its jobs are free for others."""
        held = (
            attempt_table.c.worker_id == worker_id,
            attempt_table.c.state.in_(("offered", "lost", *LIVE_ATTEMPT_STATES)),
        )
        for row in conn.execute(select(attempt_table).where(*held)).mappings().all():
            self._fence(conn, as_attempt(row))

    def end_expired(self, conn: Connection) -> None:
        """A job may run on after its worker's authorization ran out, but not for ever: then others may have it."""
        since = self._ledger.clock.now() - self._ledger.settings.expired_job_s
        workers = select(worker_table.c.id).where(worker_table.c.auth_expires_at < since)
        held = (attempt_table.c.state.in_(LIVE_ATTEMPT_STATES), attempt_table.c.worker_id.in_(workers))
        for row in conn.execute(select(attempt_table).where(*held)).mappings().all():
            attempt = as_attempt(row)
            self._take_away(conn, attempt, "superseded", f"authorization of {attempt.worker_name} expired")
            self._ledger.wake(conn, attempt.worker_id)

    def retry(self, conn: Connection, job: Job, start: RetryStart, by: str) -> None:
        """Queue an ended job again, from its newest checkpoint or from scratch."""
        resume = dict.fromkeys(_RESUME) if start == "scratch" else {}
        # What did not run on a GPU then may run on it now: curing that is what a person tries a job again for.
        needs = msgspec.structs.replace(job.wanted_target(), unfit_gpus=())
        if start == "scratch":
            # A lost attempt that came back now would go on from where it was.
            self._ledger.end_lost(conn, job.id, "superseded")
        again = set_job(
            conn,
            job.id,
            job_table.c.state.in_(JOB_END_STATES),
            state="queued",
            failures=0,
            not_before=0.0,
            lost_until=None,
            cancel_at=None,
            cancel_by="",
            current_attempt=None,
            reason=f"queued again by {by}",
            ended_at=None,
            target=encode(needs).decode(),
            **resume,
        )
        if not again:
            raise problem("wrong-state", f"the job is {job.state}; only a job that has ended can be tried again")
        self._ledger.changed(conn, job.id)
        self._ledger.requeued(conn, job.account_id)

    def _note_unfit_gpus(self, conn: Connection, held: Held) -> None:
        """Keep that a job does not run on the models of GPU that its worker has."""
        row = conn.execute(select(worker_table).where(worker_table.c.id == held.attempt.worker_id)).first()
        models = {gpu.name for gpu in facts_of(row).gpus} if row is not None else set[str]()
        needs = held.job.wanted_target()
        needs = msgspec.structs.replace(needs, unfit_gpus=tuple(sorted(models | set(needs.unfit_gpus))))
        set_job(conn, held.job.id, job_table.c.epoch == held.job.epoch, target=encode(needs).decode())

    # -- parts ------------------------------------------------------------------------------------------------------

    def _fence(self, conn: Connection, attempt: Attempt) -> None:
        if attempt.state == "offered":
            self._ledger.withdraw(conn, attempt.id, state="revoked")
        else:
            self._take_away(conn, attempt, "revoked", f"{attempt.worker_name} was revoked")

    def _take_away(self, conn: Connection, attempt: Attempt, state: AttemptState, words: str) -> None:
        """End an attempt whatever its worker says, and free its job for others: the epoch moves on."""
        job = find_job(conn, attempt.job_id)
        self._end_attempt(conn, attempt, state)
        if job is None or job.epoch != attempt.epoch:
            return
        if job.state == "canceling":
            self._end_job(conn, job, "canceled", _canceled_by(job), epoch=job.epoch + 1)
        elif job.state == "running":
            self._requeue(conn, job, attempt, words, epoch=job.epoch + 1)
        elif job.state == "queued" and job.lost_until is not None:
            self._end_job(conn, job, "failed", f"failed: lost; {words}")

    def _end_attempt(self, conn: Connection, attempt: Attempt, state: AttemptState, **values: object) -> None:
        open_states = ("lost", *LIVE_ATTEMPT_STATES)
        ended = {"state": state, "ended_at": self._ledger.clock.now(), "eta_s": None, **values}
        set_attempt(conn, attempt.id, attempt_table.c.state.in_(open_states), **ended)

    def _requeue_failed(
        self, conn: Connection, job: Job, attempt: Attempt, failure: str, words: str, body: Release | None = None
    ) -> None:
        failures = _count(job, attempt, self._resume_values(conn, attempt, body))
        if failures >= job.max_attempts:
            tried = "1 try" if failures == 1 else f"{failures} tries"
            self._end_job(conn, job, "failed", f"failed after {tried}: {words}", failures=failures)
        else:
            self._requeue(conn, job, attempt, words, body=body, failures=failures)

    def _requeue(
        self, conn: Connection, job: Job, attempt: Attempt, words: str, *, body: Release | None = None, **values: object
    ) -> None:
        resume = self._resume_values(conn, attempt, body)
        step = resume.get("resume_step", job.resume_step)
        checkpoint = f", checkpoint at step {step:,}" if isinstance(step, int) else ", no checkpoint yet"
        set_job(
            conn,
            job.id,
            job_table.c.state == "running",
            job_table.c.epoch == attempt.epoch,
            **{"state": "queued", "current_attempt": None, "reason": words + checkpoint, **resume, **values},
        )
        self._ledger.changed(conn, job.id)
        self._ledger.requeued(conn, job.account_id)

    def _end_job(self, conn: Connection, job: Job, state: JobState, reason: str, **values: object) -> None:
        ended = {"state": state, "reason": reason, "ended_at": self._ledger.clock.now(), "lost_until": None, **values}
        resume = self._newest_resume(conn, job)
        set_job(conn, job.id, job_table.c.state.not_in(JOB_END_STATES), **{**resume, **ended})
        self._ledger.changed(conn, job.id)

    def _newest_resume(self, conn: Connection, job: Job) -> dict[str, object]:
        attempt = find_attempt(conn, job.current_attempt or "")
        return self._resume_values(conn, attempt) if attempt is not None else {}

    def _resume_values(self, conn: Connection, attempt: Attempt, body: Release | None = None) -> dict[str, object]:
        """Return the job's new resume point: the checkpoint the worker named, else the attempt's newest."""
        found = latest_checkpoint(conn, attempt.id, body.checkpoint if body else None)
        if found is None:
            return {}
        return dict(zip(_RESUME, (attempt.id, found.sha256, found.size, found.step), strict=True))


def _count(job: Job, attempt: Attempt, resume: dict[str, object]) -> int:
    step = resume.get("resume_step")
    return failures_after(job.failures, attempt.start_step, step if isinstance(step, int) else None)


def _recorded(held: Held, outcome: Outcome) -> Outcome:
    # Work that finished before a cancellation landed counts; everything else of a cancelled job is canceled.
    if held.job.state == "canceling" and outcome != "succeeded":
        return "canceled"
    return outcome


def _canceled_by(job: Job) -> str:
    return f"cancelled by {job.cancel_by}" if job.cancel_by else "cancelled by the worker"


def _failed(error: JobError) -> str:
    first_line = error.message.strip().split("\n", 1)[0][:300]
    return f"{error.failure}: {first_line}" if first_line else error.failure


def _last_word(job: Job, outcome: Outcome, error: JobError | None) -> str:
    if outcome == "succeeded":
        return f"succeeded before the cancellation by {job.cancel_by} arrived" if job.cancel_by else "succeeded"
    if outcome == "canceled":
        return _canceled_by(job)
    return f"failed: {_failed(error)}" if error else "failed without a reason"
