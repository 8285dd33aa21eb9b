"""Rate limits: how often something happened to a key within a window, bounded, and kept across a restart.

Marks are counted in memory and written down once a second, so what a crash forgets is at most a second of tries.
"""

import json
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import cast

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from coordinator.clock import Clock
from coordinator.storage.database import Database
from coordinator.storage.schema import rate_mark
from worker_core.wire.problems import problem

MAX_KEYS = 50_000


class RateLimit:
    """At most ``limit`` marks of one key within ``window_s``; beyond it the key waits until the oldest has aged.

    With ``lock_s`` it waits that long from the last mark instead, and then begins anew.
    """

    def __init__(self, clock: Clock, limit: int, window_s: float, lock_s: float | None = None) -> None:
        self._clock = clock
        self.limit = limit
        self._window_s = window_s
        self._lock_s = lock_s
        self._marks: OrderedDict[str, deque[float]] = OrderedDict()
        self._dirty: set[str] = set()

    def wait_s(self, key: str) -> float:
        """Return how long the key has to wait, 0 when it may go on."""
        marks = self._fresh(key)
        if len(marks) < self.limit:
            return 0.0
        free_at = marks[0] + self._window_s if self._lock_s is None else marks[-1] + self._lock_s
        return max(0.001, free_at - self._clock.now())

    def check(self, key: str, detail: str) -> None:
        """Raise a ``rate-limited`` problem when the key has to wait."""
        wait_s = self.wait_s(key)
        if wait_s > 0:
            raise problem("rate-limited", detail, retry_after_s=round(wait_s, 1))

    def mark(self, key: str) -> None:
        """Count one event of the key."""
        marks = self._marks.setdefault(key, deque(maxlen=self.limit))
        marks.append(self._clock.now())
        self._marks.move_to_end(key)
        self._dirty.add(key)
        while len(self._marks) > MAX_KEYS:
            self._dirty.add(self._marks.popitem(last=False)[0])

    def unmark(self, key: str) -> None:
        """Take the newest mark back: what was counted in advance turned out well."""
        marks = self._marks.get(key)
        if marks:
            marks.pop()
            self._dirty.add(key)

    def left(self, key: str) -> int:
        """Return how many more marks the key may get now."""
        return self.limit - len(self._fresh(key))

    def restore(self, key: str, marks: list[float]) -> None:
        """Take over what was written down before a restart; a mark of the future is of a clock that was wrong."""
        now = self._clock.now()
        known = deque((min(mark, now) for mark in marks), maxlen=self.limit)
        if known:
            self._marks[key] = known

    def changed(self) -> dict[str, list[float]]:
        """Return the marks of every key that changed since the last call; none where a key has none left."""
        dirty, self._dirty = self._dirty, set()
        return {key: list(self._fresh(key)) for key in dirty}

    def mark_changed(self, keys: Iterable[str]) -> None:
        """Tell of keys again: they could not be written down."""
        self._dirty.update(keys)

    def aged(self) -> None:
        """Forget keys whose marks no longer count."""
        for key in [key for key in self._marks if not self._fresh(key)]:
            del self._marks[key]
            self._dirty.add(key)

    def _fresh(self, key: str) -> deque[float]:
        marks = self._marks.get(key, deque())
        now = self._clock.now()
        if self._lock_s is not None and len(marks) == self.limit:
            if marks[-1] + self._lock_s <= now:
                marks.clear()
            return marks
        oldest = now - self._window_s
        while marks and marks[0] <= oldest:
            marks.popleft()
        return marks


class RateBook:
    """All rate limits of a coordinator, by name, as the database keeps them."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._limits: dict[str, RateLimit] = {}

    def limit(self, name: str, limit: int, window_s: float, lock_s: float | None = None) -> RateLimit:
        """Make the limit of a name; once per name."""
        made = self._limits[name] = RateLimit(self._clock, limit, window_s, lock_s)
        return made

    async def load(self) -> None:
        """Read what was counted before a restart."""
        for row in await self._db.read(lambda conn: conn.execute(select(rate_mark)).all()):
            if row.name in self._limits:
                self._limits[row.name].restore(row.key, cast("list[float]", json.loads(row.marks)))

    async def flush(self) -> None:
        """Write down what changed."""
        changed = {name: limit.changed() for name, limit in self._limits.items()}
        if not any(changed.values()):
            return
        try:
            await self._db.write(lambda conn: _write(conn, changed))
        except Exception:
            for name, keys in changed.items():
                self._limits[name].mark_changed(keys)
            raise

    async def tidy(self) -> None:
        """Forget what no longer counts."""
        for limit in self._limits.values():
            limit.aged()
        await self.flush()


def _write(conn: Connection, changed: dict[str, dict[str, list[float]]]) -> None:
    for name, keys in changed.items():
        for key, marks in keys.items():
            if not marks:
                conn.execute(delete(rate_mark).where(rate_mark.c.name == name, rate_mark.c.key == key))
                continue
            text = json.dumps(marks)
            statement = insert(rate_mark).values(name=name, key=key, marks=text)
            conn.execute(statement.on_conflict_do_update(index_elements=["name", "key"], set_={"marks": text}))
