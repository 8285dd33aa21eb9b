"""Thins what waits for the coordinator when the outbox is over its budget: old lines first, then old metrics.

Runs of neighbouring events become markers that say how many of what they stand for, and that take over the numbers of
the events, so nothing is renumbered. What was sent (it may have arrived), the oldest events (a core before this
one may have sent them) and the newest quarter stay.
Checkpoints, gaps and the last event are never touched; endings and uploads lie elsewhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from worker_core.journal.budget import ROW_BYTES, Level
from worker_core.journal.driver import Connection
from worker_core.journal.outbox import read_event
from worker_core.wire.codec import encode
from worker_core.wire.events import Dropped, Event, Log, Metric, Status

KEPT_OLDEST_EVENTS = 1000
KEPT_NEWEST_SHARE = 0.25
KEEP_ONE_OF = 4
ROWS_AT_ONCE = 20_000
"""In one transaction, so that its log stays small on a disk that is nearly full."""
RUN_BYTES = 64 * 1024
REASON = "the outbox on the workstation was full"


@dataclass(frozen=True)
class Row:
    """One event that waits."""

    seq: int
    span: int
    size: int
    event: Event


@dataclass(frozen=True)
class Marker:
    """What takes the place of some events: the numbers ``seq`` to ``seq + span``."""

    seq: int
    span: int
    body: bytes


@dataclass
class Run:
    """Neighbouring events that go."""

    first: int
    end: int
    rows: int = 0
    size: int = 0
    ts: float = 0.0
    counts: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    spans: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, row: Row, what: str, count: int) -> None:
        """Let one more event go."""
        self.end = row.seq + row.span
        self.rows += 1
        self.size += row.size
        self.ts = row.event.ts
        self.counts[what] += count
        self.spans[what] += row.span

    def markers(self) -> list[Marker]:
        """Return one marker for each kind of event; which number was whose is not kept."""
        markers: list[Marker] = []
        seq = self.first
        for what, count in self.counts.items():
            body = encode(Dropped(ts=self.ts, what=what, count=count, reason=REASON))
            markers.append(Marker(seq, self.spans[what], body))
            seq += self.spans[what]
        return markers


@dataclass(frozen=True)
class Course:
    """One way through the events of an attempt: where it stands, and the number at which it ends."""

    attempt_id: str
    level: Level
    place: int = 0
    end: int | None = None


@dataclass(frozen=True)
class Thinned:
    """What a piece of the way freed; ``course`` is None at its end."""

    rows: int
    size: int
    course: Course | None


def find_runs(rows: Iterable[Row], level: Level) -> Iterator[Run]:
    """Yield the runs of events whose markers are smaller than they, each of at most :data:`RUN_BYTES`."""
    run: Run | None = None
    kept: defaultdict[object, int] = defaultdict(int)
    for row in rows:
        going = _goes(row.event, level, kept)
        if run is not None and (going is None or run.size >= RUN_BYTES):
            if _saves(run):
                yield run
            run = None
        if going is None:
            continue
        run = run or Run(row.seq, row.seq)
        run.add(row, *going)
    if run is not None and _saves(run):
        yield run


def thin(connection: Connection, course: Course, wanted: int, sent_to: int = 0) -> Thinned:
    """Thin the next events on the way of ``course``, until about ``wanted`` bytes are free; none below ``sent_to``."""
    if course.end is None:
        course = _set_out(connection, course)
    found = connection.execute(
        "SELECT seq, span, body FROM event WHERE attempt_id = ? AND seq >= ? AND seq < ? ORDER BY seq LIMIT ?",
        (course.attempt_id, max(course.place, sent_to), course.end, ROWS_AT_ONCE),
    ).fetchall()
    rows = [Row(seq, span, len(body), read_event(body, span)) for seq, span, body in found]
    freed_rows = freed_size = 0
    for run in find_runs(rows, course.level):
        markers = run.markers()
        _put_in_place(connection, course.attempt_id, run, markers)
        freed_rows += run.rows - len(markers)
        freed_size += run.size - sum(len(marker.body) for marker in markers)
        if freed_size + ROW_BYTES * freed_rows >= wanted:
            return Thinned(freed_rows, freed_size, replace(course, place=run.end))
    goes_on = len(rows) == ROWS_AT_ONCE
    return Thinned(freed_rows, freed_size, replace(course, place=rows[-1].seq + rows[-1].span) if goes_on else None)


def _set_out(connection: Connection, course: Course) -> Course:
    """Find where to begin and end. An attempt whose numbers are not certain is left alone."""
    first, waiting = connection.execute(
        """SELECT min(seq), count(*) FROM event WHERE attempt_id = ?1 AND seq >=
           (SELECT server_next_seq FROM attempt WHERE attempt_id = ?1 AND uncertain_from IS NULL)""",
        (course.attempt_id,),
    ).fetchone()
    if not waiting:
        return replace(course, end=0)
    begin = _nth(connection, course.attempt_id, first, min(KEPT_OLDEST_EVENTS, waiting // 8), "ASC")
    end = _nth(connection, course.attempt_id, first, max(1, int(waiting * KEPT_NEWEST_SHARE)) - 1, "DESC")
    return replace(course, place=begin, end=end)


def _nth(connection: Connection, attempt_id: str, first: int, nth: int, order: Literal["ASC", "DESC"]) -> int:
    row = connection.execute(
        f"SELECT seq FROM event WHERE attempt_id = ? AND seq >= ? ORDER BY seq {order} LIMIT 1 OFFSET ?",
        (attempt_id, first, nth),
    ).fetchone()
    return row[0] if row else first


def _put_in_place(connection: Connection, attempt_id: str, run: Run, markers: list[Marker]) -> None:
    connection.execute(
        "DELETE FROM event WHERE attempt_id = ? AND seq >= ? AND seq < ?", (attempt_id, run.first, run.end)
    )
    connection.executemany(
        "INSERT INTO event (attempt_id, seq, span, body) VALUES (?, ?, ?, ?)",
        [(attempt_id, marker.seq, marker.span, marker.body) for marker in markers],
    )


def _goes(event: Event, level: Level, kept: defaultdict[object, int]) -> tuple[str, int] | None:
    """Return as what, and as how many, an event is counted when it goes; None when it stays."""
    match event:
        case Log():
            return "log lines", 1
        case Dropped():
            return event.what, event.count
        case Metric() if level == "metrics" and not _is_nth(frozenset(event.values), kept):
            return "metrics", 1
        case Status() if level == "metrics" and not _is_nth(event.phase, kept):
            return "progress", 1
        case _:
            return None


def _is_nth(kind: object, kept: defaultdict[object, int]) -> bool:
    """Tell whether an event stays for its kind: the first, and every fourth after it. Rare kinds stay that way."""
    kept[kind] += 1
    return kept[kind] % KEEP_ONE_OF == 1


def _saves(run: Run) -> bool:
    return run.rows > len(run.counts) and run.size > sum(len(marker.body) for marker in run.markers())
