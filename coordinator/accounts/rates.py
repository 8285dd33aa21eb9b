"""Rate limits: how often something happened to a key within a window, kept in memory and bounded."""

from collections import OrderedDict, deque

from coordinator.clock import Clock
from worker_core.wire.problems import problem

MAX_KEYS = 50_000


class RateLimit:
    """At most ``limit`` marks of one key within ``window_s``; beyond it the key waits until the oldest has aged.

    With ``lock_s`` it waits that long from the last mark instead, and then begins anew.
    """

    def __init__(self, clock: Clock, limit: int, window_s: float, lock_s: float | None = None) -> None:
        self._clock = clock
        self._limit = limit
        self._window_s = window_s
        self._lock_s = lock_s
        self._marks: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, key: str) -> float:
        """Return how long the key has to wait, 0 when it may go on."""
        marks = self._fresh(key)
        if len(marks) < self._limit:
            return 0.0
        free_at = marks[0] + self._window_s if self._lock_s is None else marks[-1] + self._lock_s
        return max(0.001, free_at - self._clock.monotonic())

    def check(self, key: str, detail: str) -> None:
        """Raise a ``rate-limited`` problem when the key has to wait."""
        wait_s = self.wait_s(key)
        if wait_s > 0:
            raise problem("rate-limited", detail, retry_after_s=round(wait_s, 1))

    def mark(self, key: str) -> None:
        """Count one event of the key."""
        marks = self._marks.setdefault(key, deque(maxlen=self._limit))
        marks.append(self._clock.monotonic())
        self._marks.move_to_end(key)
        while len(self._marks) > MAX_KEYS:
            self._marks.popitem(last=False)

    def unmark(self, key: str) -> None:
        """Take the newest mark back: what was counted in advance turned out well."""
        marks = self._marks.get(key)
        if marks:
            marks.pop()

    def left(self, key: str) -> int:
        """Return how many more marks the key may get now."""
        return self._limit - len(self._fresh(key))

    def _fresh(self, key: str) -> deque[float]:
        marks = self._marks.get(key, deque())
        now = self._clock.monotonic()
        if self._lock_s is not None and len(marks) == self._limit:
            if marks[-1] + self._lock_s <= now:
                marks.clear()
            return marks
        oldest = now - self._window_s
        while marks and marks[0] <= oldest:
            marks.popleft()
        return marks
