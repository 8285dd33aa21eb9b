"""What a person decides about workers that get no offers: Keep ends a conflict, Confirm follows a restore."""

from sqlalchemy import Connection, select, update

from coordinator.accounts.audit import record
from coordinator.accounts.ground import Ground
from coordinator.accounts.people import Person
from coordinator.accounts.workers import Workers, find_worker
from coordinator.storage.database import after_commit
from coordinator.storage.schema import worker
from worker_core.wire.client import Confirmed, WorkerView
from worker_core.wire.problems import problem


class HeldWorkers:
    """Workers whose offers wait for a person."""

    def __init__(self, ground: Ground, workers: Workers) -> None:
        self._db = ground.db
        self._clock = ground.clock
        self._work = ground.work
        self._workers = workers

    async def keep(self, person: Person, worker_id: str) -> WorkerView:
        """Keep the machine that is connected: it changes its key at once, and the other's copy is dead with that.

        Until the new key is there the conflict stands, so that at no moment both get offers.
        """
        now = self._clock.now()

        def write(conn: Connection) -> WorkerView:
            row = find_worker(conn, person.account_id, worker_id)
            if row.conflict is None or row.revoked_at is not None:
                raise problem("wrong-state", f"no conflict of {row.name} waits for a decision")
            values = {"rekey_at": now, "rev": worker.c.rev + 1, "person_acted_at": now}
            conn.execute(update(worker).where(worker.c.id == row.id).values(**values))
            record(conn, row.account_id, now, person.email, "kept", row.id, row.name)
            self._work.record_change(conn, row.account_id, "worker", row.id)
            after_commit(conn, lambda: self._work.wake_worker(row.id))
            changed = conn.execute(select(worker).where(worker.c.id == row.id)).one()
            return self._workers.view(conn, changed)

        return await self._db.write(write)

    async def confirm(self, person: Person) -> Confirmed:
        """After a restore: let all workers of the account have offers again."""
        now = self._clock.now()

        def write(conn: Connection) -> Confirmed:
            waiting = select(worker).where(worker.c.account_id == person.account_id, worker.c.confirm_at.is_not(None))
            rows = conn.execute(waiting.order_by(worker.c.name)).all()
            for row in rows:
                values = {"confirm_at": None, "rev": worker.c.rev + 1, "person_acted_at": now}
                conn.execute(update(worker).where(worker.c.id == row.id).values(**values))
                record(conn, row.account_id, now, person.email, "confirmed", row.id, row.name)
                self._work.record_change(conn, row.account_id, "worker", row.id)
                after_commit(conn, lambda row=row: self._work.wake_worker(row.id))
            return Confirmed(confirmed=tuple(row.name for row in rows if row.revoked_at is None))

        return await self._db.write(write)
