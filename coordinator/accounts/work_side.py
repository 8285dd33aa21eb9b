"""What the accounts' side asks of the queue's side, so that neither has to import the other's insides."""

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import Connection

from worker_core.wire.client import CurrentJob
from worker_core.wire.session import HeldAttempt, Verdict


class WorkSide(Protocol):
    """The queue, as pairing, sessions and revocation see it. ``conn`` is the transaction the answer must hold in."""

    def fence_worker(self, conn: Connection, worker_id: str) -> None:
        """End every attempt of a worker for good and give its jobs back to the queue."""
        ...

    def recent_failures(self, conn: Connection, worker_id: str, limit: int) -> Sequence[bool]:
        """Tell of the last ended attempts, newest first, whether each failed by the worker's fault."""
        ...

    def current_job(self, conn: Connection, worker_id: str) -> CurrentJob | None:
        """Return the job the worker runs."""
        ...

    def sees_job_through(self, conn: Connection, worker_id: str) -> bool:
        """Tell whether the worker still has a job to end, so that it may connect although its version is too old."""
        ...

    def held_verdicts(self, conn: Connection, worker_id: str, held: Sequence[HeldAttempt]) -> tuple[Verdict, ...]:
        """Say what becomes of the attempts a connecting worker holds."""
        ...

    def record_change(self, conn: Connection, account_id: str, subject: str, subject_id: str) -> None:
        """Write one line of the account's change feed."""
        ...

    def forget_beats(self, worker_id: str) -> None:
        """Begin the worker's heartbeat numbers anew: a copy that sent some of them is shut out."""
        ...

    def wake_worker(self, worker_id: str) -> None:
        """Answer the worker's parked poll now."""
        ...
