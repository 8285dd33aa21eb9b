"""Heartbeat numbers: one that comes twice with different content shows that a running machine was copied."""

from collections import OrderedDict
from dataclasses import dataclass, field

from coordinator.clock import Clock

REMEMBERED = 64
"""Heartbeats of one connection that are remembered; a worker sends one after the other, never many at once."""
MAX_CONNECTIONS = 20_000
LATE_S = 300.0
"""No honest heartbeat arrives this much after ones that were sent later."""


@dataclass
class _Beats:
    session_id: str
    digests: OrderedDict[int, tuple[bytes, float]] = field(default_factory=OrderedDict[int, tuple[bytes, float]])


class BeatWatch:
    """The newest heartbeats of each worker's connection, in memory and bounded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._workers: OrderedDict[str, _Beats] = OrderedDict()

    def repeats(self, worker_id: str, session_id: str, n: int, digest: bytes) -> bool:
        """Note a heartbeat; tell whether another one had its number, or numbers long past it came long ago."""
        now = self._clock.monotonic()
        beats = self._workers.get(worker_id)
        if beats is None or beats.session_id != session_id:
            beats = self._workers[worker_id] = _Beats(session_id)
        self._workers.move_to_end(worker_id)
        while len(self._workers) > MAX_CONNECTIONS:
            self._workers.popitem(last=False)
        known = beats.digests.get(n)
        if known is not None:
            return known[0] != digest
        if len(beats.digests) == REMEMBERED:
            oldest = min(beats.digests)
            if n < oldest:
                return now - beats.digests[oldest][1] > LATE_S
            del beats.digests[oldest]
        beats.digests[n] = (digest, now)
        return False

    def forget(self, worker_id: str) -> None:
        """Begin anew with a worker: its conflict was decided."""
        self._workers.pop(worker_id, None)
