"""Events of attempts as rows: appended without a gap, read back in pages."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from sqlalchemy import ColumnElement, Connection, TextClause, delete, exists, insert, select, text

from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import event as event_table
from worker_core.wire.codec import encode
from worker_core.wire.events import CheckpointSaved, Dropped, Event, Flag, Gap, Log, Metric, Status

Place = tuple[int, int]
"""Where an event stands in its job: the attempt's ordinal, and the sequence number in it."""

FORGET_AT_ONCE = 5000
"""Events that one write removes, so that others need not wait for it."""
Which = Literal["metrics", "logs"]

_TAGS: dict[type[Event], str] = {
    Metric: "m",
    Log: "l",
    Status: "s",
    CheckpointSaved: "c",
    Flag: "flag",
    Gap: "gap",
    Dropped: "dropped",
}
# Spelled as in the partial index, or SQLite does not see that the index serves it.
_OF: dict[Which, ColumnElement[bool] | TextClause] = {
    "metrics": event_table.c.t == "m",
    "logs": text("t NOT IN ('m', 's')"),
}


class Stored(msgspec.Struct, frozen=True):
    """One event with its place."""

    attempt: int
    seq: int
    body: bytes

    @property
    def place(self) -> Place:
        return self.attempt, self.seq

    def event(self) -> Event:
        return msgspec.json.decode(self.body, type=Event)


def append_events(conn: Connection, attempt_id: str, numbered: Sequence[tuple[int, Event]]) -> None:
    """Add events under their numbers."""
    rows = [
        {"attempt_id": attempt_id, "seq": seq, "t": _TAGS[type(event)], "body": encode(event)}
        for seq, event in numbered
    ]
    if rows:
        conn.execute(insert(event_table), rows)


def forget_events(conn: Connection, ended_before: float) -> int:
    """Remove lines and notes of attempts that ended before a moment, a bounded number; return how many went.

    Metrics stay.
    """
    e, a, logs = event_table.c, attempt_table.c, _OF["logs"]
    with_logs = exists().where(e.attempt_id == a.id, logs)
    of = conn.execute(select(a.id).where(a.ended_at < ended_before, with_logs).limit(1)).scalar()
    if of is None:
        return 0
    seqs = select(e.seq).where(e.attempt_id == of, logs).order_by(e.seq).limit(FORGET_AT_ONCE)
    return conn.execute(delete(event_table).where(e.attempt_id == of, e.seq.in_(seqs))).rowcount


def events_of_attempt(conn: Connection, attempt_id: str, after_seq: int, limit: int) -> list[tuple[int, bytes]]:
    """Return the events of one attempt above ``after_seq``."""
    e = event_table.c
    query = select(e.seq, e.body).where(e.attempt_id == attempt_id, e.seq > after_seq).order_by(e.seq).limit(limit)
    return [(seq, body) for seq, body in conn.execute(query)]


def events_after(conn: Connection, job_id: str, after: Place, which: Which, limit: int) -> list[Stored]:
    """Return events of a job's attempts that come after a place, oldest first."""
    return _across(conn, job_id, after, which, limit, backwards=False)


def events_before(conn: Connection, job_id: str, before: Place | None, which: Which, limit: int) -> list[Stored]:
    """Return the last events before a place (or the very last), oldest first."""
    return _across(conn, job_id, before, which, limit, backwards=True)[::-1]


def _across(
    conn: Connection, job_id: str, place: Place | None, which: Which, limit: int, *, backwards: bool
) -> list[Stored]:
    """Walk the job's attempts one by one, so that each step reads one index range and never sorts."""
    a = attempt_table.c
    accepted = select(a.id, a.ordinal).where(a.job_id == job_id, a.ordinal > 0)
    if place is not None:
        accepted = accepted.where(a.ordinal <= place[0] if backwards else a.ordinal >= place[0])
    found: list[Stored] = []
    for attempt_id, ordinal in conn.execute(accepted.order_by(a.ordinal.desc() if backwards else a.ordinal)).all():
        bound = place[1] if place is not None and place[0] == ordinal else None
        found += _of_one(conn, attempt_id, ordinal, bound, which, limit - len(found), backwards=backwards)
        if len(found) >= limit:
            break
    return found


def _of_one(
    conn: Connection,
    attempt_id: str,
    ordinal: int,
    bound: int | None,
    which: Which,
    limit: int,
    *,
    backwards: bool,
) -> list[Stored]:
    e = event_table.c
    query = select(e.seq, e.body).where(e.attempt_id == attempt_id, _OF[which])
    if bound is not None:
        query = query.where(e.seq < bound if backwards else e.seq > bound)
    query = query.order_by(e.seq.desc() if backwards else e.seq).limit(limit)
    return [Stored(ordinal, seq, body) for seq, body in conn.execute(query)]
