"""Events on their way into the file: their numbers, the batch that waits for the next commit, and what is left out.

Every attempt counts its events from 0 without a gap. An event gets its number at once; its row follows with the next
commit. Nothing here touches the file.
"""

import asyncio
import time
from dataclasses import dataclass, field

import msgspec

from worker_core.journal.budget import ROW_BYTES, Budget
from worker_core.wire.codec import encode
from worker_core.wire.events import Dropped, Event, Log, Metric, Status

EventRow = tuple[str, int, bytes]
MAX_PENDING_BYTES = 8 << 20
"""What may wait in memory while the file takes nothing (full disk)."""
MAX_EVENT_BYTES = 64 * 1024
"""A larger event would not fit into a batch; a marker takes its place."""


@dataclass
class Batch:
    """Rows that one commit writes, and the future of all who wait for it."""

    rows: list[EventRow]
    size: int
    committed: asyncio.Future[None]
    since: float = field(default_factory=time.monotonic)
    """Since when its first row waits for the disk."""

    def settle(self) -> None:
        if not self.committed.done():
            self.committed.set_result(None)


@dataclass
class _Place:
    next_seq: int
    events: int = 0
    size: int = 0
    """Events and bytes not yet taken by the coordinator."""
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    sent_to: int = 0
    """Events below were sent at least once, so that the coordinator may have them without our knowing."""


class Numbering:
    """Numbers, pending rows and outbox sizes of all held attempts."""

    def __init__(self, limit_bytes: int) -> None:
        self.budget = Budget(limit_bytes)
        self._places: dict[str, _Place] = {}
        self._pending: Batch | None = None
        self.unwritten_bytes = 0
        """What was taken for a commit that failed; it waits in memory too."""

    @property
    def pending(self) -> Batch | None:
        """What waits for the next commit."""
        return self._pending if self._pending and self._pending.rows else None

    @property
    def pending_bytes(self) -> int:
        return self._pending.size if self._pending else 0

    def hold(self, attempt_id: str, next_seq: int, events: int, size: int) -> None:
        """Count for an attempt from ``next_seq``; ``events`` of ``size`` bytes are not yet taken."""
        self._places[attempt_id] = _Place(next_seq, events, size)

    def note_sent(self, attempt_id: str, end: int) -> None:
        """Note that events below ``end`` go out now."""
        if place := self._places.get(attempt_id):
            place.sent_to = max(place.sent_to, end)

    def sent_to(self, attempt_id: str) -> int:
        """Return below which number events may have arrived; thinned now, they would count twice."""
        place = self._places.get(attempt_id)
        return place.sent_to if place else 0

    def drop(self, attempt_id: str) -> None:
        """Take nothing more for an attempt."""
        self._places.pop(attempt_id, None)

    def drop_all(self) -> None:
        """Take nothing more for any attempt, and lose what waits."""
        self._places.clear()
        if self._pending:
            self._pending.settle()
            self._pending = None

    def next_seq(self, attempt_id: str) -> int:
        place = self._places.get(attempt_id)
        return place.next_seq if place else 0

    @property
    def used_bytes(self) -> int:
        """What all that waits takes of the disk, about."""
        events, size = self.outbox()
        return size + ROW_BYTES * events

    def by_size(self) -> list[str]:
        """Return the attempts for which something waits, those with the most first."""
        return sorted((name for name, place in self._places.items() if place.size), key=lambda name: -self._size(name))

    def outbox(self) -> tuple[int, int]:
        """Return events and bytes not yet taken, of all attempts."""
        places = self._places.values()
        return sum(place.events for place in places), sum(place.size for place in places)

    def add(self, attempt_id: str, event: Event, now: float) -> int | None:
        """Give ``event`` its number and let it wait for the commit; None when it is left out."""
        place = self._places.get(attempt_id)
        if place is None:
            return None
        if what := self._left_out(event):
            place.dropped[what] = place.dropped.get(what, 0) + 1
            return None
        self.tell_dropped(attempt_id, now)
        return self._enqueue(attempt_id, place, event)

    def tell_all_dropped(self) -> None:
        """Say for every attempt what was left out."""
        for attempt_id in tuple(self._places):
            self.tell_dropped(attempt_id, time.time())

    def tell_dropped(self, attempt_id: str, now: float) -> None:
        """Say with markers what was left out of an attempt since the last event that was taken."""
        place = self._places.get(attempt_id)
        if place is None:
            return
        for what, count in place.dropped.items():
            reason = "the outbox on the workstation was full"
            self._enqueue(attempt_id, place, Dropped(ts=now, what=what, count=count, reason=reason))
        place.dropped.clear()

    def committed(self) -> asyncio.Future[None]:
        """Return the future of the next commit."""
        return self._batch().committed

    def take(self) -> Batch | None:
        """Hand out what waits."""
        batch, self._pending = self._pending, None
        return batch

    def taken(self, attempt_id: str, events: int, size: int) -> None:
        """Count ``events`` as taken by the coordinator, or as thinned away."""
        if place := self._places.get(attempt_id):
            place.events -= events
            place.size -= size
            self.budget.note(self.used_bytes)

    def shift(self, attempt_id: str, from_seq: int, by: int) -> None:
        """Move all numbers from ``from_seq`` on, of rows that wait and of events to come."""
        self._places[attempt_id].next_seq += by
        if self._pending:
            self._pending.rows[:] = [
                (owner, seq + by if owner == attempt_id and seq >= from_seq else seq, body)
                for owner, seq, body in self._pending.rows
            ]

    def _enqueue(self, attempt_id: str, place: _Place, event: Event) -> int:
        if isinstance(event, Dropped) and event.seqs != 1:
            event = msgspec.structs.replace(event, seqs=1)  # a job may say so, but it gets one number like all
        body, batch = encode(event), self._batch()
        if len(body) > MAX_EVENT_BYTES:
            body = encode(Dropped(ts=event.ts, what="event", count=1, reason=f"it had {len(body)} bytes"))
        seq = place.next_seq
        batch.rows.append((attempt_id, seq, body))
        batch.size += len(body)
        place.next_seq += 1
        place.events += 1
        place.size += len(body)
        self.budget.note(self.used_bytes)
        return seq

    def _batch(self) -> Batch:
        if self._pending is None:
            self._pending = Batch([], 0, asyncio.get_running_loop().create_future())
        return self._pending

    def _size(self, attempt_id: str) -> int:
        return self._places[attempt_id].size

    def _left_out(self, event: Event) -> str:
        used = self.used_bytes
        crowded = self.pending_bytes + self.unwritten_bytes >= MAX_PENDING_BYTES
        if isinstance(event, Log) and (crowded or self.budget.refuses_logs(used)):
            return "log lines"
        if isinstance(event, Metric | Status) and (crowded or self.budget.refuses_metrics(used)):
            return "metrics" if isinstance(event, Metric) else "progress"
        return "event" if self.budget.refuses_all(used) else ""
