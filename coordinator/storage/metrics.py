"""Metric points, keyed (job, attempt, metric, step); the last write wins. Blocks of steps are summed for long series.

What a session shows leaves out superseded points: those of an older attempt from the first step of a newer one on.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import metric as metric_table
from coordinator.storage.schema_queue import metric_block, metric_point
from worker_core.wire.codec import Number, number_from_wire, number_to_wire
from worker_core.wire.events import Metric

BLOCK_STEPS = 128
MAX_METRICS_PER_JOB = 2000
_LARGEST = 1.7976931348623157e308
END_OF_STEPS = 2**63 - 1
AnySelect = Select[*tuple[Any, ...]]
_Grouping = tuple[ColumnElement[bool], ColumnElement[int]]
"""Which rows, and by what they are put together."""


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring points as a band and a line: lowest, highest and last finite value, and how many were not finite."""

    attempt: int
    step_first: int
    step_last: int
    low: float | None
    high: float | None
    last: float | None
    count: int
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0


class AttemptEdge(msgspec.Struct, frozen=True):
    """The first step at which an attempt is shown."""

    attempt: int
    step: int


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a job for a chart. ``exact``: every bucket is one point."""

    name: str
    points: list[Bucket]
    edges: list[AttemptEdge]
    total: int
    exact: bool


class MetricHead(msgspec.Struct, frozen=True, kw_only=True):
    """A metric at a glance. ``low`` and ``high`` are of its finite values; ``last`` may be "NaN" or an infinity."""

    name: str
    points: int
    first_step: int
    last_step: int
    last: Number
    low: float | None
    high: float | None
    non_finite: int
    last_time: float


class Visible(msgspec.Struct, frozen=True):
    """The steps of one attempt that a session shows: those below ``end``."""

    attempt: int
    end: int


class _Sum(msgspec.Struct, frozen=True):
    """A group of points: the fields of a bucket before their order among attempts is known."""

    group: int
    step_first: int
    step_last: int
    low: float | None
    high: float | None
    count: int
    nan: int
    pos_inf: int
    neg_inf: int


def add_points(conn: Connection, job_id: str, ordinal: int, events: Iterable[Metric]) -> list[str]:
    """Store the values of metric events; return the names that changed."""
    latest = {
        (name, event.step): (number_from_wire(value), event.ts)
        for event in events
        for name, value in event.values.items()
    }
    ids = _metric_ids(conn, job_id, sorted({name for name, _ in latest}))
    rows: list[dict[str, Any]] = [
        {
            "metric_id": ids[name],
            "ordinal": ordinal,
            "step": step,
            "value": None if math.isnan(value) else value,
            "ts": ts,
        }
        for (name, step), (value, ts) in latest.items()
        if name in ids
    ]
    if not rows:
        return []
    points = upsert(metric_point)
    overwrite = {"value": points.excluded.value, "ts": points.excluded.ts}
    conn.execute(points.on_conflict_do_update(index_elements=["metric_id", "ordinal", "step"], set_=overwrite), rows)
    for metric_id in set(ids.values()):
        touched = sorted({row["step"] // BLOCK_STEPS for row in rows if row["metric_id"] == metric_id})
        for first, last in _runs(touched):
            _sum_blocks(conn, metric_id, ordinal, first, last)
    return list(ids)


def visible_steps(conn: Connection, job_id: str) -> list[Visible]:
    """Return per attempt, oldest first, which steps a session shows."""
    a = attempt_table.c
    query = select(a.ordinal, a.start_step, a.first_step).where(a.job_id == job_id, a.first_step.is_not(None))
    shown: list[Visible] = []
    end = END_OF_STEPS
    for ordinal, resumed_at, first in conn.execute(query.order_by(a.ordinal.desc())).all():
        if end > 0:
            shown.append(Visible(ordinal, end))
        end = min(end, first if resumed_at is None else resumed_at + 1)
    return shown[::-1]


def metric_names(conn: Connection, job_id: str) -> dict[str, int]:
    """Return the metrics of a job by name."""
    m = metric_table.c
    rows = conn.execute(select(m.name, m.id).where(m.job_id == job_id).order_by(m.name))
    return {row.name: row.id for row in rows}


def heads(conn: Connection, job_id: str, name: str | None = None) -> list[MetricHead]:
    """Return every metric of a job at a glance, or just the one of this name; as few queries however many there are."""
    m = metric_table.c
    wanted = select(m.id).where(m.job_id == job_id, *(() if name is None else (m.name == name,)))
    sums: defaultdict[int, list[_Sum]] = defaultdict(list)
    newest: dict[int, tuple[float | None, float]] = {}
    for span in visible_steps(conn, job_id):
        for part in _sums_by_metric(conn, wanted, span):
            sums[part.group].append(part)
        newest |= _newest_values(conn, wanted, span)
    named = ((key, one) for one, key in metric_names(conn, job_id).items() if key in sums)
    return [_head(one, _joined(sums[key]), *newest[key]) for key, one in named]


def series(conn: Connection, job_id: str, name: str, buckets: int) -> Series:
    """Return a metric's visible points, summed up to about ``buckets`` where there are more."""
    key = metric_names(conn, job_id).get(name)
    shown = visible_steps(conn, job_id)
    if key is None:
        return Series(name=name, points=[], edges=[], total=0, exact=True)
    points = _exactly(conn, key, shown, buckets)
    exact = points is not None
    if points is None:
        points = _summed(conn, key, shown, buckets)
    edges = [AttemptEdge(attempt, next(group).step_first) for attempt, group in groupby(points, lambda p: p.attempt)]
    return Series(name=name, points=points, edges=edges, total=sum(point.count for point in points), exact=exact)


# -- writing -----------------------------------------------------------------------------------------------------------


def _metric_ids(conn: Connection, job_id: str, names: Sequence[str]) -> dict[str, int]:
    m = metric_table.c
    known = metric_names(conn, job_id)
    new = [name for name in names if name not in known]
    for name in new[: max(0, MAX_METRICS_PER_JOB - len(known))]:
        known[name] = conn.execute(insert(metric_table).values(job_id=job_id, name=name).returning(m.id)).scalar_one()
    return {name: known[name] for name in names if name in known}


def _runs(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and block == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], block)
        else:
            runs.append((block, block))
    return runs


def _sum_blocks(conn: Connection, metric_id: int, ordinal: int, first: int, last: int) -> None:
    p = metric_point.c
    start, end = first * BLOCK_STEPS, min((last + 1) * BLOCK_STEPS, END_OF_STEPS)
    sums = _sum_points(p.metric_id == metric_id, ordinal, start, end, p.step // BLOCK_STEPS).add_columns(
        p.metric_id, p.ordinal
    )
    columns = ["block", "step_first", "step_last", "low", "high", "points", "nan", "pos_inf", "neg_inf"]
    replace = insert(metric_block).prefix_with("OR REPLACE")
    conn.execute(replace.from_select([*columns, "metric_id", "ordinal"], sums))


# -- reading -----------------------------------------------------------------------------------------------------------


def _sum_points(of: ColumnElement[bool], ordinal: int, start: int, end: int, group: ColumnElement[int]) -> AnySelect:
    p = metric_point.c
    finite = p.value.between(-_LARGEST, _LARGEST)
    columns: list[ColumnElement[Any]] = [
        group.label("block"),
        func.min(p.step),
        func.max(p.step),
        func.min(p.value).filter(finite),
        func.max(p.value).filter(finite),
        func.count(),
        func.count().filter(p.value.is_(None)),
        func.count().filter(p.value > _LARGEST),
        func.count().filter(p.value < -_LARGEST),
    ]
    return select(*columns).where(of, p.ordinal == ordinal, p.step >= start, p.step < end).group_by("block")


def _sum_stored(of: ColumnElement[bool], ordinal: int, end: int, group: ColumnElement[int]) -> AnySelect:
    b = metric_block.c
    columns: list[ColumnElement[Any]] = [
        group.label("bucket"),
        func.min(b.step_first),
        func.max(b.step_last),
        func.min(b.low),
        func.max(b.high),
        *(func.sum(column) for column in (b.points, b.nan, b.pos_inf, b.neg_inf)),
    ]
    return select(*columns).where(of, b.ordinal == ordinal, b.block < end).group_by("bucket")


def _sums(conn: Connection, key: int, span: Visible, origin: int, width: int) -> list[_Sum]:
    """Return the points of one attempt in groups of ``width`` steps, from stored blocks where they are fine enough."""
    p, b = metric_point.c, metric_block.c
    by_step = (p.step - origin) // width
    if width < BLOCK_STEPS:
        return _read(conn, _sum_points(p.metric_id == key, span.attempt, 0, span.end, by_step))
    by_block = (b.block * BLOCK_STEPS - origin) // width
    parts = _in_blocks(conn, span, (p.metric_id == key, by_step), (b.metric_id == key, by_block))
    return [_joined(list(group)) for _, group in groupby(parts, lambda part: part.group)]


def _sums_by_metric(conn: Connection, wanted: AnySelect, span: Visible) -> list[_Sum]:
    """Return the points of one attempt summed up for each metric, whose id is the group."""
    p, b = metric_point.c, metric_block.c
    points = (p.metric_id.in_(wanted), p.metric_id + 0)
    return _in_blocks(conn, span, points, (b.metric_id.in_(wanted), b.metric_id + 0))


def _in_blocks(conn: Connection, span: Visible, points: _Grouping, blocks: _Grouping) -> list[_Sum]:
    """Return sums of stored blocks, and of the points after the last whole block."""
    end = span.end // BLOCK_STEPS
    (of_points, by_step), (of_blocks, by_block) = points, blocks
    return [
        *_read(conn, _sum_stored(of_blocks, span.attempt, end, by_block)),
        *_read(conn, _sum_points(of_points, span.attempt, end * BLOCK_STEPS, span.end, by_step)),
    ]


def _read(conn: Connection, query: AnySelect) -> list[_Sum]:
    return [_Sum(*row) for row in conn.execute(query)]


def _joined(parts: Sequence[_Sum]) -> _Sum:
    if len(parts) == 1:
        return parts[0]
    lows = [part.low for part in parts if part.low is not None]
    highs = [part.high for part in parts if part.high is not None]
    return _Sum(
        parts[0].group,
        min(part.step_first for part in parts),
        max(part.step_last for part in parts),
        min(lows, default=None),
        max(highs, default=None),
        sum(part.count for part in parts),
        sum(part.nan for part in parts),
        sum(part.pos_inf for part in parts),
        sum(part.neg_inf for part in parts),
    )


def _exactly(conn: Connection, key: int, shown: Sequence[Visible], limit: int) -> list[Bucket] | None:
    """Return every visible point as a bucket of its own, or None when there are more than ``limit``."""
    points: list[Bucket] = []
    p = metric_point.c
    for span in shown:
        query = (
            select(p.step, p.value)
            .where(p.metric_id == key, p.ordinal == span.attempt, p.step < span.end)
            .order_by(p.step)
            .limit(limit + 1 - len(points))
        )
        points += [single_point(span.attempt, step, value) for step, value in conn.execute(query)]
        if len(points) > limit:
            return None
    return points


def single_point(attempt: int, step: int, value: float | None) -> Bucket:
    """Return one point as a bucket; no value stands for NaN."""
    finite = value if value is not None and math.isfinite(value) else None
    return Bucket(
        attempt=attempt,
        step_first=step,
        step_last=step,
        low=finite,
        high=finite,
        last=finite,
        count=1,
        nan=int(value is None),
        pos_inf=int(value == math.inf),
        neg_inf=int(value == -math.inf),
    )


def _summed(conn: Connection, key: int, shown: Sequence[Visible], buckets: int) -> list[Bucket]:
    low, high = _extent(conn, key, shown)
    width = max(1, -(-(high - low + 1) // buckets))
    points: list[Bucket] = []
    for span in shown:
        sums = _sums(conn, key, span, low, width)
        values = _values_at(conn, key, span.attempt, [part.step_last for part in sums])
        points += [_bucket(span.attempt, part, values[part.step_last]) for part in sums]
    return points


def _bucket(attempt: int, part: _Sum, last: float | None) -> Bucket:
    sums = msgspec.structs.asdict(part)
    del sums["group"]
    return Bucket(attempt=attempt, last=last if last is not None and math.isfinite(last) else None, **sums)


def _extent(conn: Connection, key: int, shown: Sequence[Visible]) -> tuple[int, int]:
    p = metric_point.c
    lows: list[int] = []
    highs: list[int] = []
    for span in shown:
        # One aggregate a query: each is then one look-up at an end of the index.
        where = (p.metric_id == key, p.ordinal == span.attempt, p.step < span.end)
        low = conn.execute(select(func.min(p.step)).where(*where)).scalar()
        high = conn.execute(select(func.max(p.step)).where(*where)).scalar()
        if low is not None and high is not None:
            lows.append(low)
            highs.append(high)
    return min(lows, default=0), max(highs, default=0)


def _values_at(conn: Connection, key: int, ordinal: int, steps: Sequence[int]) -> dict[int, float | None]:
    p = metric_point.c
    query = select(p.step, p.value).where(p.metric_id == key, p.ordinal == ordinal, p.step.in_(steps))
    return {row.step: row.value for row in conn.execute(query)}


def _newest_values(conn: Connection, wanted: AnySelect, span: Visible) -> dict[int, tuple[float | None, float]]:
    """Return value and time at the last visible step of each metric in one attempt."""
    m, p = metric_table.c, metric_point.c
    i = metric_point.alias().c
    # One look-up at the end of the index for each metric; a plain max() would read every point.
    last = (
        select(i.step)
        .where(i.metric_id == m.id, i.ordinal == span.attempt, i.step < span.end)
        .order_by(i.step.desc())
        .limit(1)
        .correlate(metric_table)
        .scalar_subquery()
    )
    query = (
        select(m.id, p.value, p.ts)
        .join(metric_point, p.metric_id == m.id)
        .where(m.id.in_(wanted), p.ordinal == span.attempt, p.step == last)
    )
    return {key: (value, ts) for key, value, ts in conn.execute(query)}


def _head(name: str, sums: _Sum, value: float | None, ts: float) -> MetricHead:
    return MetricHead(
        name=name,
        points=sums.count,
        first_step=sums.step_first,
        last_step=sums.step_last,
        last=number_to_wire(math.nan if value is None else value),
        low=sums.low,
        high=sums.high,
        non_finite=sums.nan + sums.pos_inf + sums.neg_inf,
        last_time=ts,
    )
