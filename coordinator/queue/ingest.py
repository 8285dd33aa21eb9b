"""W5: events arrive in order and without a gap; metrics, progress and checkpoints are read out of them."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from sqlalchemy import Connection, func

from coordinator.accounts.authorization import assert_worker_live
from coordinator.queue.attempts import Caller
from coordinator.queue.ledger import Ledger, set_attempt
from coordinator.queue.rows import Attempt, Held
from coordinator.storage.database import Database
from coordinator.storage.events import append_events
from coordinator.storage.metrics import add_points
from coordinator.storage.schema_queue import attempt as attempt_table
from worker_core.wire.codec import BadMessage, Count, Message, decode, encode
from worker_core.wire.events import MAX_LINE_BYTES, CheckpointSaved, Dropped, Event, Flag, Log, Metric, Status, seqs_of
from worker_core.wire.problems import problem
from worker_core.wire.status import FlagShown
from worker_core.wire.work import EventsTaken

MAX_EVENTS = 2000
MAX_FLAGS = 50
_ANY_EVENT = cast("type[Event]", Event)


class _Envelope(Message):
    """A batch whose events are not yet read, so that a bad one can be named by its index."""

    epoch: int
    first_seq: Count
    events: tuple[msgspec.Raw, ...]


class Batch(msgspec.Struct, frozen=True):
    """A W5 request with every event read."""

    epoch: int
    first_seq: int
    events: tuple[Event, ...]


class Ingest:
    """Takes the events of attempts."""

    def __init__(self, db: Database, ledger: Ledger) -> None:
        self._db = db
        self._ledger = ledger

    async def take(self, caller: Caller, attempt_id: str, batch: Batch) -> EventsTaken:
        """Store what is new in a batch and return the first number that is still missing."""

        def write(conn: Connection) -> EventsTaken:
            assert_worker_live(conn, caller.worker_id, caller.session_id)
            held = self._ledger.fence(conn, attempt_id, caller.worker_id, batch.epoch)
            next_seq = held.attempt.next_seq
            if batch.first_seq > next_seq:
                raise problem("event-gap", f"events from {next_seq} on are missing", next_seq=next_seq)
            new = new_events(batch, next_seq)
            if not new:
                return EventsTaken(next_seq=next_seq)
            last_seq, last = new[-1]
            end = last_seq + seqs_of(last)
            self._store(conn, held, new, end)
            return EventsTaken(next_seq=end)

        return await self._db.write(write)

    def _store(self, conn: Connection, held: Held, numbered: Sequence[tuple[int, Event]], end: int) -> None:
        attempt, job = held.attempt, held.job
        append_events(conn, attempt.id, numbered)
        events = tuple(event for _, event in numbered)
        metrics = [event for event in events if isinstance(event, Metric)]
        names = add_points(conn, job.id, attempt.ordinal, metrics)
        progress = _progress(attempt, events, self._ledger.clock.now())
        expected = attempt_table.c.next_seq == attempt.next_seq
        set_attempt(conn, attempt.id, expected, next_seq=end, **progress)
        feed = self._ledger.feed
        if names:
            feed.record(conn, job.account_id, "metrics", job.id, {"attempt": attempt.ordinal, "names": names[:50]})
        if any(not isinstance(event, Metric | Status) for event in events):
            feed.record(conn, job.account_id, "logs", job.id, {"attempt": attempt.ordinal})
        if {"label", "checkpoint_at", "flags"} & progress.keys():
            self._ledger.changed(conn, job.id)


def new_events(batch: Batch, next_seq: int) -> list[tuple[int, Event]]:
    """Return the events of a batch that are not here yet, each with its number.

    Of a marker that replaced events, some of which had arrived before, only the rest of its numbers is new.
    """
    new: list[tuple[int, Event]] = []
    seq = batch.first_seq
    for event in batch.events:
        end = seq + seqs_of(event)
        if end > next_seq:
            new.append((max(seq, next_seq), _rest(event, next_seq - seq)))
        seq = end
    return new


def _rest(event: Event, taken: int) -> Event:
    if not isinstance(event, Dropped) or taken <= 0:
        return event
    return msgspec.structs.replace(event, count=max(0, event.count - taken), seqs=event.seqs - taken)


def read_batch(body: bytes) -> Batch:
    """Read a W5 body; a bad event is named by its index, so that the worker can replace just that one."""
    try:
        envelope = decode(body, _Envelope)
    except BadMessage as error:
        raise problem("invalid-request", f"the body is not a batch of events: {error}") from error
    if len(envelope.events) > MAX_EVENTS:
        raise problem("too-large", f"a batch holds at most {MAX_EVENTS} events, this has {len(envelope.events)}")
    events = tuple(_read_event(index, bytes(raw)) for index, raw in enumerate(envelope.events))
    return Batch(envelope.epoch, envelope.first_seq, events)


def _read_event(index: int, raw: bytes) -> Event:
    try:
        event = decode(raw, _ANY_EVENT)
    except BadMessage as error:
        raise problem("bad-event", f"event {index} of the batch is not valid: {error}", index=index) from error
    if isinstance(event, Log) and len(event.text.encode()) > MAX_LINE_BYTES:
        raise problem("bad-event", f"event {index} is a line of more than {MAX_LINE_BYTES} bytes", index=index)
    return event


def _progress(attempt: Attempt, events: tuple[Event, ...], now: float) -> dict[str, Any]:
    """Return what a batch says about where its attempt stands."""
    values: dict[str, Any] = {}
    flags = [
        FlagShown(step=event.step, flag=event.flag, text=event.text, action=event.action)
        for event in events
        if isinstance(event, Flag)
    ]
    if flags:
        values["flags"] = encode((*attempt.shown_flags(), *flags)[-MAX_FLAGS:]).decode()
    steps = [event.step for event in events if isinstance(event, Metric)]
    if steps:
        first = min(steps) if attempt.first_step is None else min(attempt.first_step, *steps)
        values["first_step"] = first
    for event in events:
        if isinstance(event, Status):
            values |= {"label": event.phase[:100], "progress": event.progress, "eta_s": event.eta_s}
            steps.append(event.step)
        elif isinstance(event, CheckpointSaved):
            values["checkpoint_at"] = now
            steps.append(event.step)
    if steps:
        values["step"] = func.max(attempt_table.c.step, max(steps))
    return values
