"""S6: a worker changes its key. The new one counts at the commit, the old one is dead from then on."""

import asyncio
from pathlib import Path

from sqlalchemy import Connection, insert, select, update

from coordinator.accounts.audit import WORKSTATION, record
from coordinator.accounts.authorization import assert_worker_live
from coordinator.accounts.ground import Ground
from coordinator.storage.database import AnyRow, after_commit
from coordinator.storage.identity_log import Replacement, append_entry
from coordinator.storage.schema import past_key, worker
from worker_core.wire.problems import problem


class KeyChanges:
    """Changes of workers' keys."""

    def __init__(self, ground: Ground, data: Path) -> None:
        self._db = ground.db
        self._clock = ground.clock
        self._work = ground.work
        self._data = data

    async def change(self, worker_id: str, session_id: str, thumbprint: str) -> None:
        """Let the present connection's worker be known by a new key; saying so again changes nothing."""
        query = select(worker.c.thumbprint).where(worker.c.id == worker_id)
        old = await self._db.read(lambda conn: conn.execute(query).scalar_one())
        if old == thumbprint:
            return
        now = self._clock.now()

        def check(conn: Connection) -> None:
            _check_undisputed(assert_worker_live(conn, worker_id, session_id))
            check_new_key(conn, thumbprint)

        await self._db.read(check)
        # Like a revocation it must outlive a restored database, which would bring the old key back.
        entry = Replacement(worker_id=worker_id, old=old, new=thumbprint, at=now)
        await asyncio.to_thread(append_entry, self._data, entry)

        def write(conn: Connection) -> None:
            row = assert_worker_live(conn, worker_id, session_id)
            if row.thumbprint == thumbprint:
                return  # the same request, sent twice at once
            check(conn)
            if row.thumbprint != old:
                raise problem("wrong-state", "another change of the key came first")
            replace_key(conn, worker_id, old, thumbprint, now)
            detail = "a person chose Keep" if row.rekey_at is not None else ""
            record(conn, row.account_id, now, WORKSTATION, "key changed", row.id, row.name, detail)
            self._work.record_change(conn, row.account_id, "worker", worker_id)
            after_commit(conn, lambda: self._work.forget_beats(worker_id))
            after_commit(conn, lambda: self._work.wake_worker(worker_id))

        await self._db.write(write)


def replace_key(conn: Connection, worker_id: str, old: str, new: str, now: float) -> None:
    """Let a worker be known by ``new``; with its key changed, whatever a copy of the old one did is over."""
    conn.execute(insert(past_key).values(thumbprint=old, worker_id=worker_id, ended_at=now))
    change = update(worker).where(worker.c.id == worker_id, worker.c.thumbprint == old)
    values = {"thumbprint": new, "conflict": None, "rekey_at": None, "rev": worker.c.rev + 1}
    conn.execute(change.values(**values))


def _check_undisputed(row: AnyRow) -> None:
    """Let nobody end a conflict by changing the key: which of two machines stays is for a person to say."""
    if row.conflict is not None and row.rekey_at is None:
        raise problem("credential-conflict", "a person decides in the console first which machine stays")


def check_new_key(conn: Connection, thumbprint: str) -> None:
    """Refuse a key that is or was a worker's: what is signed for it, or was stolen with it, must stay dead."""
    used = conn.execute(select(worker.c.id).where(worker.c.thumbprint == thumbprint)).first()
    past = conn.execute(select(past_key.c.worker_id).where(past_key.c.thumbprint == thumbprint)).first()
    if used is not None or past is not None:
        raise problem("wrong-state", "this key is or was a worker's; make a new one")
