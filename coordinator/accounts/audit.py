"""The history of what people and the coordinator did to workers and accounts: kept for long, shown, never changed."""

from typing import Literal

from sqlalchemy import Connection, delete, insert, or_, select

from coordinator.clock import Clock, rfc3339
from coordinator.storage.database import Database
from coordinator.storage.schema import audit
from worker_core.wire.client import AuditEntry

Act = Literal[
    "approved",
    "denied",
    "changed",
    "drained",
    "stopped",
    "resumed",
    "renewed",
    "extended",
    "revoked",
    "removed",
    "conflict",
    "kept",
    "key changed",
    "confirmed",
    "restored",
    "codes locked",
    "pairing switched off",
    "API token made",
    "password changed",
]
COORDINATOR = "the coordinator"
WORKSTATION = "the workstation"
HOST = "the coordinator's host"
MAX_DETAIL = 500


def record(
    conn: Connection,
    account_id: str | None,
    now: float,
    actor: str,
    act: Act,
    subject_id: str,
    subject: str,
    detail: str = "",
) -> None:
    """Write one line in the transaction of what it tells; without an account everybody sees it."""
    conn.execute(
        insert(audit).values(
            account_id=account_id,
            at=now,
            actor=actor,
            act=act,
            subject=subject,
            subject_id=subject_id,
            detail=detail[:MAX_DETAIL],
        )
    )


def forget_old_entries(conn: Connection, before: float) -> None:
    """Drop what is older than the history is kept."""
    conn.execute(delete(audit).where(audit.c.at < before))


class Audit:
    """Reads the history."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def page(self, account_id: str, limit: int, before: int | None = None) -> list[AuditEntry]:
        """Return up to ``limit`` entries, newest first, older than entry ``before``."""
        query = select(audit).where(or_(audit.c.account_id == account_id, audit.c.account_id.is_(None)))
        if before is not None:
            query = query.where(audit.c.id < before)
        newest = query.order_by(audit.c.id.desc()).limit(limit)
        return await self._db.read(lambda conn: [_entry(row) for row in conn.execute(newest)])

    async def since(self, account_id: str, acts: tuple[Act, ...], start: float, limit: int) -> list[AuditEntry]:
        """Return the newest entries of some acts since a moment."""
        mine = or_(audit.c.account_id == account_id, audit.c.account_id.is_(None))
        query = select(audit).where(mine, audit.c.act.in_(acts), audit.c.at >= start)
        newest = query.order_by(audit.c.id.desc()).limit(limit)
        return await self._db.read(lambda conn: [_entry(row) for row in conn.execute(newest)])

    async def write(
        self, account_id: str | None, actor: str, act: Act, subject_id: str, subject: str, detail: str = ""
    ) -> None:
        """Write a line that stands in no other transaction."""
        now = self._clock.now()

        def add(conn: Connection) -> None:
            record(conn, account_id, now, actor, act, subject_id, subject, detail)

        await self._db.write(add)


def _entry(row: object) -> AuditEntry:
    values = {name: getattr(row, name) for name in ("id", "actor", "act", "subject", "subject_id", "detail")}
    return AuditEntry(at=rfc3339(row.at), **values)  # type: ignore[attr-defined]
