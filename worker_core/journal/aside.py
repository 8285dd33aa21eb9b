"""What is set aside: events and files that the coordinator refuses for ever, by name, so that a person can see them."""

from worker_core.journal.driver import Connection
from worker_core.journal.records import SetAside
from worker_core.wire.events import CheckpointSaved, Event, Log, Metric, Status

KEPT = 100
_MAX_CHARS = 300
_NAMES_SHOWN = 5


def note_aside(connection: Connection, item: SetAside) -> None:
    """Keep one item; the oldest beyond :data:`KEPT` go."""
    connection.execute(
        "INSERT INTO set_aside (attempt_id, what, reason, at) VALUES (?, ?, ?, ?)",
        (item.attempt_id, item.what[:_MAX_CHARS], item.reason[:_MAX_CHARS], item.at),
    )
    connection.execute("DELETE FROM set_aside WHERE number <= (SELECT max(number) FROM set_aside) - ?", (KEPT,))


def list_aside(connection: Connection) -> list[SetAside]:
    """Return what was set aside, newest first."""
    rows = connection.execute("SELECT attempt_id, what, reason, at FROM set_aside ORDER BY number DESC").fetchall()
    return [SetAside(attempt_id=row[0], what=row[1], reason=row[2], at=row[3]) for row in rows]


def name_of(event: Event, seq: int) -> str:
    """Return what a person calls an event."""
    match event:
        case Metric():
            names = sorted(event.values)
            more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
            return f"event {seq}: metrics {', '.join(names[:_NAMES_SHOWN])}{more} of step {event.step}"
        case Log():
            return f"event {seq}: a line of {event.stream}"
        case Status():
            return f"event {seq}: the progress at step {event.step}"
        case CheckpointSaved():
            return f"event {seq}: the note of the checkpoint of step {event.step}"
        case _:
            return f"event {seq}: a marker"
