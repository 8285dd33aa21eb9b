"""The change feed: one persisted row for each thing that changed, and a wake-up for those who watch.

A row is written in the transaction of the change itself, so a reader who follows ``seq`` misses nothing and sees
nothing that was not committed. The wake-up only says "look again".
"""

import asyncio
from collections import defaultdict
from types import TracebackType

import msgspec
from sqlalchemy import Connection, RowMapping, delete, func, insert, select

from coordinator.clock import Clock
from coordinator.storage.database import Database, after_commit
from coordinator.storage.schema_queue import change as change_table


class Change(msgspec.Struct, frozen=True):
    """A notice that something changed: what kind of thing, which one, and a few facts about it."""

    seq: int
    subject: str
    id: str
    at: float
    detail: dict[str, object]


class Subscription:
    """One watcher of an account's changes. Use as a context manager."""

    def __init__(self, feed: "ChangeFeed", account_id: str) -> None:
        self._feed = feed
        self.account_id = account_id
        self._changed = asyncio.Event()

    async def wait(self, timeout_s: float) -> bool:
        """Wait until something was committed since the last wait; False when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def wake(self) -> None:
        self._changed.set()

    def __enter__(self) -> "Subscription":
        self._feed.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._feed.remove(self)


class ChangeFeed:
    """Records changes and wakes their watchers."""

    def __init__(self, db: Database, clock: Clock, generation: int, keep: int) -> None:
        self._db = db
        self._clock = clock
        self._keep = keep
        self.epoch = f"g{generation}"
        self._watchers: defaultdict[str, set[Subscription]] = defaultdict(set)

    def subscribe(self, account_id: str) -> Subscription:
        """Return a watcher of this account's changes."""
        return Subscription(self, account_id)

    def add(self, watcher: Subscription) -> None:
        self._watchers[watcher.account_id].add(watcher)

    def remove(self, watcher: Subscription) -> None:
        watchers = self._watchers[watcher.account_id]
        watchers.discard(watcher)
        if not watchers:
            del self._watchers[watcher.account_id]

    def wake_all(self) -> None:
        """Wake every watcher (the coordinator stops)."""
        for watchers in list(self._watchers.values()):
            for watcher in list(watchers):
                watcher.wake()

    def record(
        self, conn: Connection, account_id: str, subject: str, subject_id: str, detail: dict[str, object] | None = None
    ) -> None:
        """Inside a write: note that something changed; its watchers wake after the commit."""
        conn.execute(
            insert(change_table).values(
                account_id=account_id,
                subject=subject,
                subject_id=subject_id,
                detail=msgspec.json.encode(detail or {}).decode(),
                at=self._clock.now(),
            )
        )
        after_commit(conn, lambda: self._wake(account_id))

    async def changes_after(self, account_id: str, seq: int, limit: int = 500) -> tuple[list[Change], bool]:
        """Return changes above ``seq``, and whether it is too old (or unknown) to continue from."""
        return await self._db.read(lambda conn: _after(conn, account_id, seq, limit))

    async def last_seq(self) -> int:
        """Return the newest sequence number, from which a watcher who has just read everything may go on."""
        newest = select(func.max(change_table.c.seq))
        return await self._db.read(lambda conn: conn.execute(newest).scalar() or 0)

    def prune(self, conn: Connection) -> None:
        """Forget all but the newest changes."""
        newest = conn.execute(select(func.max(change_table.c.seq))).scalar() or 0
        conn.execute(delete(change_table).where(change_table.c.seq <= newest - self._keep))

    def _wake(self, account_id: str) -> None:
        for watcher in self._watchers.get(account_id, ()):
            watcher.wake()


def _after(conn: Connection, account_id: str, seq: int, limit: int) -> tuple[list[Change], bool]:
    oldest, newest = conn.execute(select(func.min(change_table.c.seq), func.max(change_table.c.seq))).one()
    # Numbers are given to all accounts together, so what was pruned may have been somebody else's; we cannot tell.
    if seq > (newest or 0) or (oldest or 1) > seq + 1:
        return [], True
    query = (
        select(change_table)
        .where(change_table.c.account_id == account_id, change_table.c.seq > seq)
        .order_by(change_table.c.seq)
        .limit(limit)
    )
    return [_as_change(row) for row in conn.execute(query).mappings()], False


def _as_change(row: RowMapping) -> Change:
    return Change(
        seq=row["seq"],
        subject=row["subject"],
        id=row["subject_id"],
        at=row["at"],
        detail=msgspec.json.decode(row["detail"], type=dict[str, object]),
    )
