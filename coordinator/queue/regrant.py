"""After a restore from a backup: attempts this coordinator granted and does not remember any more.

The offer that a worker keeps with each attempt carries our own signature and generation. Where it was signed before
the restore and its job still has an older epoch, the grant happened after the backup was made, so the attempt is
written down again and goes on. Every grant of the present generation is known, so an offer of it that was never
accepted gives a worker nothing.
"""

from sqlalchemy import Connection, delete, insert, select, update

from coordinator.accounts.keys import CoordinatorKeys
from coordinator.queue.ledger import Ledger, running_values, set_attempt, set_job
from coordinator.queue.rows import Attempt, Held, Job, find_attempt, find_job
from coordinator.storage.events import append_events
from coordinator.storage.schema import worker as worker_table
from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import job as job_table
from worker_core.wire.events import Gap
from worker_core.wire.session import HeldAttempt
from worker_core.wire.vocabulary import JOB_END_STATES, LIVE_ATTEMPT_STATES

LOST_WITH_THE_BACKUP = "the coordinator was restored from a backup that lacks what came before"


class Regrants:
    """Writes down again what a restored database has forgotten."""

    def __init__(self, ledger: Ledger, keys: CoordinatorKeys, generation: int) -> None:
        self._ledger = ledger
        self._keys = keys
        self._generation = generation

    def regrant(self, conn: Connection, worker_id: str, held: HeldAttempt) -> bool:
        """Make a held attempt that is not known the running attempt of its job, if we granted it; else False."""
        job = self._job_of(conn, worker_id, held)
        if job is None:
            return False
        known = find_attempt(conn, held.attempt_id)
        if known is not None:
            self._forget_offer(conn, known)
        self._end_older(conn, job)
        self._write(conn, worker_id, job, held)
        self._ledger.changed(conn, job.id)
        return True

    def go_on_from(self, conn: Connection, known: Held, held: HeldAttempt) -> None:
        """Let events go on where the worker still has them; what it has delivered to a lost database is marked."""
        attempt = known.attempt
        if held.first_seq <= attempt.next_seq:
            return
        gap = Gap(ts=self._ledger.clock.now(), reason=LOST_WITH_THE_BACKUP)
        append_events(conn, attempt.id, [(attempt.next_seq, gap)])
        set_attempt(conn, attempt.id, attempt_table.c.next_seq == attempt.next_seq, next_seq=held.first_seq)

    def _job_of(self, conn: Connection, worker_id: str, held: HeldAttempt) -> Job | None:
        """Return the job of a grant that is newer than what is known of it."""
        offer = self._keys.opened_offer(held.offer_jws) if held.offer_jws is not None else None
        if offer is None or (offer.worker_id, offer.attempt_id) != (worker_id, held.attempt_id):
            return None
        if offer.gen >= self._generation:
            return None
        job = find_job(conn, offer.job_id)
        ours = conn.execute(select(worker_table.c.account_id).where(worker_table.c.id == worker_id)).scalar()
        if job is None or job.account_id != ours or job.spec_sha256 != offer.spec_sha256:
            return None
        newer = offer.epoch == held.epoch > job.epoch
        return job if newer and job.state not in (*JOB_END_STATES, "canceling") else None

    def _forget_offer(self, conn: Connection, known: Attempt) -> None:
        self._ledger.withdraw(conn, known.id)
        conn.execute(delete(attempt_table).where(attempt_table.c.id == known.id))

    def _end_older(self, conn: Connection, job: Job) -> None:
        """The attempts that the backup remembers lost the job to this one."""
        if job.offered_attempt is not None:
            self._ledger.withdraw(conn, job.offered_attempt)
        older = attempt_table.c.state.in_((*LIVE_ATTEMPT_STATES, "lost"))
        ended = {"state": "superseded", "ended_at": self._ledger.clock.now()}
        conn.execute(update(attempt_table).where(attempt_table.c.job_id == job.id, older).values(**ended))

    def _write(self, conn: Connection, worker_id: str, job: Job, held: HeldAttempt) -> None:
        now = self._ledger.clock.now()
        name = conn.execute(select(worker_table.c.name).where(worker_table.c.id == worker_id)).scalar()
        conn.execute(
            insert(attempt_table).values(
                id=held.attempt_id,
                job_id=job.id,
                account_id=job.account_id,
                worker_id=worker_id,
                worker_name=name,
                epoch=held.epoch,
                ordinal=job.ordinal + 1,
                state="running",
                offer_until=now,
                lease_until=now + self._ledger.settings.worker.lease_ttl_s,
                start_step=job.resume_step,
                step=job.resume_step or 0,
                phase=held.phase,
                created_at=now,
                accepted_at=now,
            )
        )
        set_job(
            conn,
            job.id,
            job_table.c.epoch == job.epoch,
            **running_values(job, held.attempt_id, held.epoch, now),
        )
