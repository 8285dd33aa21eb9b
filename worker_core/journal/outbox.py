"""Statements on the events that wait for the coordinator."""

from typing import cast

import msgspec

from worker_core.journal.driver import Connection
from worker_core.journal.numbering import EventRow
from worker_core.journal.records import EventSlice
from worker_core.wire.codec import BadMessage, decode, encode
from worker_core.wire.events import Dropped, Event, Metric

_ANY_EVENT: type[Event] = cast("type[Event]", Event)


def insert_events(connection: Connection, rows: list[EventRow]) -> None:
    """Write rows; an attempt that is gone takes none."""
    connection.executemany(
        """INSERT INTO event (attempt_id, seq, body)
           SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM attempt WHERE attempt_id = ?1 AND forgotten = 0)""",
        rows,
    )


def read_slice(connection: Connection, attempt_id: str, max_events: int, max_bytes: int) -> EventSlice | None:
    """Return the events that come next, without a gap; None when there is nothing to send."""
    row = connection.execute(
        "SELECT server_next_seq, uncertain_from FROM attempt WHERE attempt_id = ? AND forgotten = 0", (attempt_id,)
    ).fetchone()
    if row is None:
        return None
    first, uncertain_from = row
    if uncertain_from is not None:
        return EventSlice(first, (), probe=True)
    events, size, expected = list[Event](), 0, first
    rows = connection.execute(
        "SELECT seq, span, body FROM event WHERE attempt_id = ? AND seq >= ? ORDER BY seq LIMIT ?",
        (attempt_id, first, max_events),
    )
    for seq, span, body in rows:
        # A number may be missing for a moment, when its commit has to be tried again.
        if seq != expected or (events and size + len(body) > max_bytes):
            break
        events.append(read_event(body, span))
        expected += span
        size += len(body)
    return EventSlice(first, tuple(events)) if events else None


def take_events(connection: Connection, attempt_id: str, next_seq: int) -> tuple[int, int]:
    """Note that the coordinator has all events below ``next_seq``; return how many and how large they were."""
    (old,) = connection.execute(
        "SELECT server_next_seq FROM attempt WHERE attempt_id = ?", (attempt_id,)
    ).fetchone() or (next_seq,)
    if next_seq <= old:
        return 0, 0
    count, size = connection.execute(
        "SELECT count(*), coalesce(sum(length(body)), 0) FROM event WHERE attempt_id = ? AND seq >= ? AND seq < ?",
        (attempt_id, old, next_seq),
    ).fetchone()
    connection.execute("UPDATE attempt SET server_next_seq = ? WHERE attempt_id = ?", (next_seq, attempt_id))
    kept, kept_size = _keep_untaken_part(connection, attempt_id, next_seq)
    remove_delivered(connection, attempt_id)
    return count - kept, size - kept_size


def _keep_untaken_part(connection: Connection, attempt_id: str, next_seq: int) -> tuple[int, int]:
    """Shorten a marker of which the coordinator took the first numbers only, while they were events still."""
    row = connection.execute(
        "SELECT seq, span, body FROM event WHERE attempt_id = ? AND seq < ? ORDER BY seq DESC LIMIT 1",
        (attempt_id, next_seq),
    ).fetchone()
    if row is None or row[0] + row[1] <= next_seq:
        return 0, 0
    seq, span, body = row
    taken, marker = next_seq - seq, read_event(body, span)
    if isinstance(marker, Dropped):
        body = encode(msgspec.structs.replace(marker, count=max(0, marker.count - taken), seqs=1))
    connection.execute(
        "UPDATE event SET seq = ?, span = ?, body = ? WHERE attempt_id = ? AND seq = ?",
        (next_seq, span - taken, body, attempt_id, seq),
    )
    return 1, len(body)


def remove_delivered(connection: Connection, attempt_id: str) -> None:
    """Remove events that the coordinator has and the saved history holds."""
    connection.execute(
        """DELETE FROM event WHERE attempt_id = ?1
           AND seq < (SELECT min(server_next_seq, series_seq) FROM attempt WHERE attempt_id = ?1)""",
        (attempt_id,),
    )


def replace_event(connection: Connection, attempt_id: str, seq: int, body: bytes) -> tuple[Event, int] | None:
    """Put another event in the place of one; return that and by how much less room is taken, None when it is gone."""
    row = connection.execute(
        "SELECT body, span FROM event WHERE attempt_id = ? AND seq = ?", (attempt_id, seq)
    ).fetchone()
    if row is None:
        return None
    connection.execute("UPDATE event SET body = ? WHERE attempt_id = ? AND seq = ?", (body, attempt_id, seq))
    return read_event(*row), len(row[0]) - len(body)


def realign(connection: Connection, attempt_id: str, next_seq: int) -> tuple[int, int]:
    """After a power cut, let new events begin where the coordinator goes on; return from where and by how much.

    Rows older than the power cut keep their numbers: the coordinator has them, or will take them under these.
    """
    (uncertain_from,) = connection.execute(
        "SELECT uncertain_from FROM attempt WHERE attempt_id = ?", (attempt_id,)
    ).fetchone() or (None,)
    if uncertain_from is None:
        return 0, 0
    by = max(0, next_seq - uncertain_from)
    # Two steps, because a number must not meet its neighbour's old one on the way.
    connection.execute(
        "UPDATE event SET seq = -1 - (seq + ?) WHERE attempt_id = ? AND seq >= ?", (by, attempt_id, uncertain_from)
    )
    connection.execute("UPDATE event SET seq = -1 - seq WHERE attempt_id = ? AND seq < 0", (attempt_id,))
    connection.execute("UPDATE attempt SET uncertain_from = NULL WHERE attempt_id = ?", (attempt_id,))
    return uncertain_from, by


def mark_uncertain(connection: Connection, attempt_id: str, from_seq: int) -> None:
    """Note that events from ``from_seq`` on may have been lost with the power."""
    connection.execute(
        "UPDATE attempt SET uncertain_from = ? WHERE attempt_id = ? AND uncertain_from IS NULL", (from_seq, attempt_id)
    )


def uncertain_attempts(connection: Connection) -> set[str]:
    """Return the attempts whose numbers the coordinator has to confirm first."""
    rows = connection.execute("SELECT attempt_id FROM attempt WHERE uncertain_from IS NOT NULL AND forgotten = 0")
    return {attempt_id for (attempt_id,) in rows}


def untaken(connection: Connection, attempt_id: str) -> tuple[int, int]:
    """Return number and size of the events that the coordinator lacks."""
    return connection.execute(
        """SELECT count(*), coalesce(sum(length(body)), 0) FROM event WHERE attempt_id = ?1
           AND seq >= (SELECT server_next_seq FROM attempt WHERE attempt_id = ?1)""",
        (attempt_id,),
    ).fetchone()


def metrics_since_saved(connection: Connection, attempt_id: str) -> list[Metric]:
    """Return the metric events that the saved history lacks."""
    rows = connection.execute(
        """SELECT body FROM event WHERE attempt_id = ?1
           AND seq >= (SELECT series_seq FROM attempt WHERE attempt_id = ?1) ORDER BY seq""",
        (attempt_id,),
    )
    events = (read_event(body) for (body,) in rows.fetchall())
    return [event for event in events if isinstance(event, Metric)]


def read_event(body: bytes, span: int = 1) -> Event:
    """Return the event of a row; one that cannot be read is a marker."""
    try:
        event = decode(body, _ANY_EVENT)
    except BadMessage as error:
        event = Dropped(ts=0.0, what="event", count=1, reason=f"not readable in the journal: {error}")
    return msgspec.structs.replace(event, seqs=span) if isinstance(event, Dropped) and span > 1 else event
