"""After the database was restored from a copy: the dead stay dead, and nobody gets offers until a person has looked."""

import logging
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, update

from coordinator.accounts.audit import COORDINATOR, record
from coordinator.accounts.ground import Ground
from coordinator.accounts.key_changes import replace_key
from coordinator.storage.generation import Generation
from coordinator.storage.identity_log import Entry, Replacement, read_entries
from coordinator.storage.schema import past_key, session, worker, worker_token
from worker_core.wire.signed import Revocation

log = logging.getLogger(__name__)


class Restoring:
    """What the start of a coordinator does about its past."""

    def __init__(self, ground: Ground, generation: Generation, data: Path) -> None:
        self._db = ground.db
        self._clock = ground.clock
        self._keys = ground.keys
        self._work = ground.work
        self._generation = generation
        self._data = data

    async def run(self) -> None:
        """Replay the revocation log; after a restore hold every worker back until a person confirms it."""
        entries = list(read_entries(self._data))
        now = self._clock.now()

        def write(conn: Connection) -> None:
            if self._generation.restored:
                self._change_keys_again(conn, entries)
            for entry in entries:
                if isinstance(entry, Revocation):
                    self._revoke_again(conn, entry, now)
            if self._generation.restored:
                self._hold_all(conn, now)
                self._generation.settle_in(conn)

        await self._db.write(write)
        if self._generation.restored:
            log.warning(
                "the database is older than this folder's generation: it was restored. Generation %d begins; "
                "no worker gets offers until a person confirms them in the console",
                self._generation.number,
            )
            await self._generation.settle_beside()

    def _hold_all(self, conn: Connection, now: float) -> None:
        held = update(worker).where(worker.c.revoked_at.is_(None)).values(confirm_at=now, rev=worker.c.rev + 1)
        count = conn.execute(held).rowcount
        detail = f"generation {self._generation.number}; {count} workers wait for confirmation"
        record(conn, None, now, COORDINATOR, "restored", "", "the database", detail)

    def _change_keys_again(self, conn: Connection, entries: list[Entry]) -> None:
        """Only after a restore: a change that was logged and then refused must not come true at an ordinary start."""
        changes = [entry for entry in entries if isinstance(entry, Replacement)]
        # Of several that replace one key only the last can have been committed.
        took_effect = {entry.old: entry for entry in changes}
        for entry in changes:
            row = conn.execute(select(worker).where(worker.c.thumbprint == entry.old)).first()
            if row is not None and row.id == entry.worker_id and took_effect[entry.old] is entry:
                replace_key(conn, row.id, entry.old, entry.new, entry.at)

    def _revoke_again(self, conn: Connection, entry: Revocation, now: float) -> None:
        row = conn.execute(select(worker).where(worker.c.id == entry.worker_id)).first()
        if row is not None and row.revoked_at is not None:
            return
        signed = self._keys.sign(entry)
        if row is None:
            known = select(past_key.c.worker_id).where(past_key.c.thumbprint == entry.thumbprint)
            if conn.execute(known).first() is None:
                tomb = {"thumbprint": entry.thumbprint, "worker_id": entry.worker_id, "revocation": signed}
                conn.execute(insert(past_key).values(ended_at=now, **tomb))
            return
        values = {"revoked_at": now, "revocation": signed, "session_id": None, "rev": worker.c.rev + 1}
        conn.execute(update(worker).where(worker.c.id == row.id).values(**values))
        conn.execute(delete(worker_token).where(worker_token.c.worker_id == row.id))
        ending = update(session).where(session.c.worker_id == row.id, session.c.ended_at.is_(None))
        conn.execute(ending.values(ended_at=now, end_reason="revoked"))
        self._work.fence_worker(conn, row.id)
        self._work.record_change(conn, row.account_id, "worker", row.id)
        record(conn, row.account_id, now, COORDINATOR, "revoked", row.id, row.name, f"again, as by {entry.by} before")
