"""S1, the queue's half: what becomes of the attempts a connecting worker says it holds."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from coordinator.queue.endings import Endings
from coordinator.queue.leases import Leases
from coordinator.queue.ledger import Ledger
from coordinator.queue.regrant import Regrants
from coordinator.queue.rows import Held, as_attempt, find_held, find_job
from coordinator.storage.schema_queue import attempt as attempt_table
from worker_core.wire.session import HeldAttempt, Verdict
from worker_core.wire.vocabulary import LIVE_ATTEMPT_STATES


class Connecting:
    """Compares what a worker holds with what it should hold."""

    def __init__(self, ledger: Ledger, endings: Endings, leases: Leases, regrants: Regrants) -> None:
        self._regrants = regrants
        self._ledger = ledger
        self._endings = endings
        self._leases = leases

    def verdicts(self, conn: Connection, worker_id: str, held: Sequence[HeldAttempt]) -> tuple[Verdict, ...]:
        """Return a verdict for each held attempt; what the worker should hold and does not is released at once."""
        self._release_forgotten(conn, worker_id, {attempt.attempt_id for attempt in held})
        return tuple(self._verdict(conn, worker_id, attempt) for attempt in held)

    def _verdict(self, conn: Connection, worker_id: str, held: HeldAttempt) -> Verdict:
        found = self._leases.verdict(conn, worker_id, held.attempt_id, held.epoch).verdict
        if found in ("unknown", "superseded") and self._regrants.regrant(conn, worker_id, held):
            found = "ok"
        known = find_held(conn, held.attempt_id, worker_id)
        if found == "revived" and known is not None:
            found = "ok" if self._ledger.revive(conn, known) else "superseded"
        elif found == "ok" and known is not None:
            lease_until = self._ledger.clock.now() + self._ledger.settings.worker.lease_ttl_s
            self._ledger.renew(conn, held.attempt_id, held.epoch, lease_until)
        if found == "unknown":
            return Verdict(attempt_id=held.attempt_id, verdict="keep_unknown")
        if found != "ok":
            return Verdict(attempt_id=held.attempt_id, verdict="stop")
        if known is not None:
            self._regrants.go_on_from(conn, known, held)
        done = held.phase in ("uploading", "finishing")
        return Verdict(attempt_id=held.attempt_id, verdict="upload_only" if done else "continue")

    def _release_forgotten(self, conn: Connection, worker_id: str, held: set[str]) -> None:
        """The answer to an accept was lost, or the workstation lost its disk: the job must not wait for the lease."""
        a = attempt_table.c
        mine = select(attempt_table).where(a.worker_id == worker_id, a.state.in_(LIVE_ATTEMPT_STATES))
        for row in conn.execute(mine).mappings().all():
            attempt = as_attempt(row)
            job = find_job(conn, attempt.job_id)
            if attempt.id not in held and job is not None and job.epoch == attempt.epoch:
                self._endings.release(conn, Held(attempt, job), "not-held")
