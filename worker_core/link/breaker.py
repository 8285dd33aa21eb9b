"""A breaker for bulk transfers: after five transport faults in a row nothing is sent but a probe now and then."""

import asyncio
import random
from collections.abc import Callable

_FAULTS_TO_OPEN = 5
_PROBE_AFTER_S = (30.0, 60.0)


class Breaker:
    """Counts transport faults of the bulk plane and holds transfers back while it is open."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._faults = 0
        self._closed_again = asyncio.Event()
        self._closed_again.set()
        self._probe_at = 0.0

    @property
    def open(self) -> bool:
        """Whether transfers wait."""
        return self._faults >= _FAULTS_TO_OPEN

    async def pass_through(self) -> None:
        """Return when a transfer may be tried: at once, or as the next probe, or when the link is back."""
        while self.open and self._now() < self._probe_at:
            try:
                async with asyncio.timeout(self._probe_at - self._now()):
                    await self._closed_again.wait()
            except TimeoutError:
                break
        if self.open:
            self._probe_at = self._now() + random.uniform(*_PROBE_AFTER_S)

    def note_fault(self) -> None:
        """Count a transport fault."""
        self._faults += 1
        if self._faults == _FAULTS_TO_OPEN:
            self._closed_again.clear()
            self._probe_at = self._now() + random.uniform(*_PROBE_AFTER_S)

    def note_success(self) -> None:
        """Close: a transfer went through, or the control plane has the coordinator again."""
        self._faults = 0
        self._closed_again.set()
