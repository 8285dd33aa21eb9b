"""The one way this worker tries again: full jitter up to a cap, never sooner than the other side asks.

The n-th wait in a row is drawn from U(1, min(cap, 2ⁿ)) seconds: jitter added and then clipped at the cap would be
none, and a fleet would return in one herd. ``Retry-After`` is a floor, plus up to a quarter of it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from worker_core.link.faults import TransportFault
from worker_core.wire.problems import ProblemError

log = logging.getLogger(__name__)

MAX_ASKED_S = 3600.0
"""The longest wait that the other side may ask for: nobody sends a worker to sleep for years."""
HEALTHY_S = 30.0
"""So long a loop must work before its waits begin anew (no longer than its cap, where that is shorter)."""
_UNFORESEEN_CAP_S = 60.0
T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Backoff:
    """Counts failures in a row of one loop and draws its next wait.

    A row ends with :data:`HEALTHY_S` of success, not with the first: an other side that takes each call and breaks
    it off a moment later is not asked every second for ever.
    """

    def __init__(
        self,
        cap_s: float,
        random_source: random.Random | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cap_s = cap_s
        self.failures = 0
        self._random = random_source or random.Random()
        self._now = now
        self._works_since: float | None = None

    @property
    def working(self) -> bool:
        """Whether the newest try succeeded, or none was made yet."""
        return self._works_since is not None or self.failures == 0

    def works(self) -> None:
        """Note that the loop works just now."""
        if self._works_since is None:
            self._works_since = self._now()

    def next_wait(self, fault: Exception | None = None) -> float:
        """Count a failure and return the seconds to wait before the next try."""
        if self._works_since is not None and self._now() - self._works_since >= min(HEALTHY_S, self.cap_s):
            self.failures = 0
        self._works_since = None
        self.failures += 1
        asked = _asked_wait(fault)
        if asked is not None:
            return spread(asked, self._random)
        return self._random.uniform(1, max(1.0, min(self.cap_s, 2.0 ** min(self.failures, 32))))


def spread(asked_s: float, source: random.Random | None = None) -> float:
    """Return a wait of at least ``asked_s``, or an hour, that does not bring all workers back in one moment."""
    asked_s = min(asked_s, MAX_ASKED_S)
    return asked_s + (source or random.Random()).uniform(0, asked_s / 4)


def may_help(fault: Exception) -> bool:
    """Tell whether trying the same again can help."""
    if isinstance(fault, ProblemError):
        return fault.problem.retryable or fault.problem.status >= 500 or fault.problem.status == 429
    return isinstance(fault, TransportFault)


async def until_answered(call: Callable[[], Awaitable[T]], backoff: Backoff, sleep: Sleep, tries: int) -> T:
    """Repeat ``call`` while trying again can help, at most ``tries`` times; the last failure is raised."""
    while True:
        try:
            answer = await call()
        except (TransportFault, ProblemError) as fault:
            if not may_help(fault) or backoff.failures + 1 >= tries:
                raise
            await sleep(backoff.next_wait(fault))
        else:
            return answer


async def keep_going(loop: Callable[[], Awaitable[None]], what: str, sleep: Sleep = asyncio.sleep) -> None:
    """Run ``loop``, which is meant never to end: an error that nobody foresaw is logged, and it begins again."""
    backoff = Backoff(_UNFORESEEN_CAP_S)
    while True:
        try:
            await loop()
        except Exception:
            log.exception("%s failed; it begins again", what)
        await sleep(backoff.next_wait())


def _asked_wait(fault: Exception | None) -> float | None:
    asked_s: float | None = None
    if isinstance(fault, ProblemError):
        asked_s = fault.problem.retry_after_s
    elif isinstance(fault, TransportFault):
        asked_s = fault.retry_after_s
    return None if asked_s is None else min(max(asked_s, 0.0), MAX_ASKED_S)
