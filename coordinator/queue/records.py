"""What a job has recorded: metric series and points, log lines. Read by console, command line and scripts."""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec
from sqlalchemy import Connection

from coordinator.queue.rows import Job, require_job
from coordinator.storage import metrics
from coordinator.storage.database import Database
from coordinator.storage.events import Place, Stored, events_after, events_before
from coordinator.storage.metrics import Bucket, MetricHead, Series, Visible
from coordinator.storage.superseded import hidden_steps, superseded_points
from worker_core.wire.client import MetricPoint
from worker_core.wire.events import CheckpointSaved, Dropped, Event, Flag, Gap, Log, Metric
from worker_core.wire.problems import problem
from worker_core.wire.vocabulary import JOB_END_STATES

T = TypeVar("T")
MAX_BUCKETS = 2000
MAX_LINES = 5000
MAX_POINTS = 5000
_EVENTS_A_LOOK = 500
_BEGINNING: Place = (0, -1)
_CURSOR = re.compile(r"(\d{1,18})\.(-1|\d{1,18})", re.ASCII)


class LogLine(msgspec.Struct, frozen=True):
    """One line of a job's log."""

    cursor: str
    attempt: int
    seq: int
    ts: float
    stream: str
    text: str


class LogPage(msgspec.Struct, frozen=True):
    """Lines in order. ``earlier`` leads further back, ``next`` to what comes later; ``done``: nothing will."""

    items: list[LogLine]
    earlier: str | None
    next: str
    done: bool


class PointPage(msgspec.Struct, frozen=True):
    """Raw points in the order of their arrival; go on with ``after=next`` until ``done``."""

    items: list[MetricPoint]
    next: str
    done: bool


class Records:
    """Metrics and logs of all jobs."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def metric_heads(self, account_id: str, job_id: str, name: str | None = None) -> list[MetricHead]:
        """Return every metric of a job at a glance, or just the one of this name."""
        return await self._read(account_id, job_id, lambda conn, job: metrics.heads(conn, job.id, name))

    async def series(
        self,
        account_id: str,
        job_id: str,
        name: str,
        *,
        buckets: int = 800,
    ) -> Series:
        """Return a metric for a chart."""
        size = max(1, min(buckets, MAX_BUCKETS))
        return await self._read(account_id, job_id, lambda conn, job: metrics.series(conn, job.id, name, size))

    async def superseded(self, account_id: str, job_id: str, name: str, *, buckets: int = 400) -> list[Bucket]:
        """Return the points of a metric that newer attempts hide."""
        return await self._read(
            account_id, job_id, lambda conn, job: superseded_points(conn, job.id, name, min(buckets, MAX_BUCKETS))
        )

    async def has_superseded(self, account_id: str, job_id: str) -> bool:
        """Tell whether newer attempts hide anything of older ones."""
        return await self._read(account_id, job_id, lambda conn, job: bool(hidden_steps(conn, job.id)))

    async def points(
        self, account_id: str, job_id: str, *, name: str | None = None, after: str | None = None, limit: int = 1000
    ) -> PointPage:
        """Return raw points after a cursor, superseded ones left out."""
        place, size = read_cursor(after), max(1, min(limit, MAX_POINTS))
        return await self._read(account_id, job_id, lambda conn, job: _points(conn, job, name, place, size))

    async def log_tail(self, account_id: str, job_id: str, limit: int = 2000, before: str | None = None) -> LogPage:
        """Return the last lines of a job's log, or the last before a cursor."""
        size = max(1, min(limit, MAX_LINES))
        place = None if before is None else read_cursor(before)

        def read(conn: Connection, job: Job) -> LogPage:
            found = events_before(conn, job.id, place, "logs", size)
            earlier = cursor_of(found[0].place) if len(found) == size else None
            last = found[-1].place if found else _BEGINNING
            return LogPage([_line(stored) for stored in found], earlier, cursor_of(last), _ended(job))

        return await self._read(account_id, job_id, read)

    async def log_after(self, account_id: str, job_id: str, after: str | None, limit: int = 2000) -> LogPage:
        """Return the lines that follow a cursor."""
        size, place = max(1, min(limit, MAX_LINES)), read_cursor(after)

        def read(conn: Connection, job: Job) -> LogPage:
            found = events_after(conn, job.id, place, "logs", size)
            last = found[-1].place if found else place
            return LogPage(
                [_line(stored) for stored in found], None, cursor_of(last), _ended(job) and len(found) < size
            )

        return await self._read(account_id, job_id, read)

    async def _read(self, account_id: str, job_id: str, act: Callable[[Connection, Job], T]) -> T:
        return await self._db.read(lambda conn: act(conn, require_job(conn, account_id, job_id)))


def cursor_of(place: Place) -> str:
    """Return a place as the text that callers send back."""
    return f"{place[0]}.{place[1]}"


def read_cursor(text: str | None) -> Place:
    """Return the place a cursor stands for; the beginning when there is none."""
    if text is None:
        return _BEGINNING
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise problem("invalid-request", f"{text[:40]!r} is not a cursor of ours")
    return int(match[1]), int(match[2])


def _ended(job: Job) -> bool:
    return job.state in JOB_END_STATES


def _points(conn: Connection, job: Job, name: str | None, after: Place, limit: int) -> PointPage:
    shown = {span.attempt: span for span in metrics.visible_steps(conn, job.id)}
    found: list[MetricPoint] = []
    place = after
    while len(found) < limit:
        events = events_after(conn, job.id, place, "metrics", _EVENTS_A_LOOK)
        for stored in events:
            found += _visible_points(stored, shown.get(stored.attempt), name)
            place = stored.place
            if len(found) >= limit:
                return PointPage(found, cursor_of(place), done=False)
        if len(events) < _EVENTS_A_LOOK:
            return PointPage(found, cursor_of(place), done=_ended(job))
    return PointPage(found, cursor_of(place), done=False)


def _visible_points(stored: Stored, span: Visible | None, name: str | None) -> list[MetricPoint]:
    event = stored.event()
    if not isinstance(event, Metric) or span is None or event.step >= span.end:
        return []
    return [
        MetricPoint(name=key, step=event.step, value=value, attempt=stored.attempt, time=event.ts)
        for key, value in event.values.items()
        if name in (None, key)
    ]


def _line(stored: Stored) -> LogLine:
    event = stored.event()
    stream = event.stream if isinstance(event, Log) else "stoker"
    return LogLine(cursor_of(stored.place), stored.attempt, stored.seq, event.ts, stream, _text(event))


def _text(event: Event) -> str:
    match event:
        case Log():
            return event.text
        case CheckpointSaved():
            return f"checkpoint saved at step {event.step:,}"
        case Gap():
            return f"events may be missing here: {event.reason}"
        case Flag():
            return f"step {event.step:,}: {event.text}"
        case Dropped():
            return f"{event.count} {event.what} left out: {event.reason}"
        case _:
            return ""
