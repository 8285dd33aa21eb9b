"""Series, heads and blocks say of a metric what its points say, however long it is and however often it was resumed."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, event, insert

from coordinator.storage import metrics, schema_queue
from coordinator.storage.schema import metadata
from coordinator.storage.superseded import hidden_steps, superseded_points
from worker_core.wire.codec import Number, number_to_wire
from worker_core.wire.events import Metric

VALUES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf]))
STEPS = st.one_of(st.integers(0, 60), st.integers(0, 5000), st.integers(0, 10**7))
TABLES = [
    schema_queue.metric,
    schema_queue.metric_point,
    schema_queue.metric_block,
    schema_queue.attempt,
    schema_queue.job,
]


@pytest.fixture(scope="module")
def engine():
    engine = create_engine("sqlite://")
    metadata.create_all(engine, tables=TABLES)
    yield engine
    engine.dispose()


def write(conn, job_id, ordinal, start_step, points):
    steps = [step for step, _ in points]
    row = {"id": f"{job_id}-{ordinal}", "job_id": job_id, "account_id": "a", "worker_id": "w", "worker_name": "w"}
    attempt = {**row, "ordinal": ordinal, "epoch": ordinal, "state": "running", "offer_until": 0, "created_at": 0}
    conn.execute(
        insert(schema_queue.attempt).values(
            **attempt, start_step=start_step, first_step=min(steps, default=None), step=max(steps, default=0)
        )
    )
    for begin in range(0, len(points), 7):
        batch = [
            Metric(ts=float(begin), step=step, values={"loss": number_to_wire(value)})
            for step, value in points[begin : begin + 7]
        ]
        metrics.add_points(conn, job_id, ordinal, batch)


def expected(attempts):
    """Work out by hand which points are shown: {(attempt, step): value}."""
    shown = {}
    for ordinal, start_step, points in attempts:
        if not points:
            continue
        cut = min(step for step, _ in points) if start_step is None else start_step + 1
        shown = {(older, step): value for (older, step), value in shown.items() if step < cut}
        shown |= {(ordinal, step): value for step, value in points}
    return shown


attempts_strategy = st.lists(
    st.tuples(st.one_of(st.none(), STEPS), st.lists(st.tuples(STEPS, VALUES), max_size=60)), min_size=1, max_size=3
)
numbers = iter(range(10**9))


@settings(max_examples=60, deadline=None)
@given(attempts_strategy, st.integers(1, 40))
def test_a_series_holds_exactly_what_is_shown(engine, attempts, buckets):
    numbered = [(ordinal, start, points) for ordinal, (start, points) in enumerate(attempts, 1)]
    with engine.begin() as conn:
        job_id = f"job-{next(numbers)}"
        conn.exec_driver_sql("PRAGMA foreign_keys = OFF")
        for ordinal, start, points in numbered:
            write(conn, job_id, ordinal, start, points)
        found = metrics.series(conn, job_id, "loss", buckets)
        head = next(iter(metrics.heads(conn, job_id)), None)
        superseded = superseded_points(conn, job_id, "loss", 10**8)
        hidden = hidden_steps(conn, job_id)
    shown = expected(numbered)
    said = {(ordinal, step): value for ordinal, _, points in numbered for step, value in points}
    faint = {(point.attempt, point.step_last): point.last for point in superseded}
    kept_back = {place: value if math.isfinite(value) else None for place, value in said.items() if place not in shown}
    assert faint == kept_back
    assert bool(hidden) == bool(kept_back)
    finite = [value for value in shown.values() if math.isfinite(value)]
    assert found.total == len(shown) == sum(bucket.count for bucket in found.points)
    assert min((b.low for b in found.points if b.low is not None), default=None) == min(finite, default=None)
    assert max((b.high for b in found.points if b.high is not None), default=None) == max(finite, default=None)
    assert sum(b.nan + b.pos_inf + b.neg_inf for b in found.points) == len(shown) - len(finite)
    for bucket in found.points:
        last = shown[bucket.attempt, bucket.step_last]
        assert bucket.last == (last if math.isfinite(last) else None)
    order = [(bucket.attempt, bucket.step_first) for bucket in found.points]
    assert order == sorted(order)
    if shown:
        assert head is not None
        assert (head.points, head.low, head.high) == (len(shown), min(finite, default=None), max(finite, default=None))
    else:
        assert head is None


def test_the_last_write_of_a_step_wins(engine):
    with engine.begin() as conn:
        conn.exec_driver_sql("PRAGMA foreign_keys = OFF")
        write(conn, "job-last", 1, None, [(1, 1.0), (2000, 5.0), (1, 3.0)])
        points = metrics.series(conn, "job-last", "loss", 100).points
        head = metrics.heads(conn, "job-last")[0]
    assert [(point.step_first, point.last) for point in points] == [(1, 3.0), (2000, 5.0)]
    assert (head.points, head.low) == (2, 3.0)


def test_a_job_cannot_fill_the_table_with_names(engine, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_METRICS_PER_JOB", 3)
    with engine.begin() as conn:
        conn.exec_driver_sql("PRAGMA foreign_keys = OFF")
        event = Metric(ts=0.0, step=1, values={f"name-{number}": 1.0 for number in range(9)})
        assert len(metrics.add_points(conn, "job-names", 1, [event])) == 3


def test_a_glance_at_very_many_metrics_is_quick(engine):
    with engine.begin() as conn:
        conn.exec_driver_sql("PRAGMA foreign_keys = OFF")
        write(conn, "job-many", 1, None, [(1, 1.0)])
        for step in (1, 200, 300):
            values: dict[str, Number] = {f"layer/{number}": float(step + number) for number in range(1900)}
            metrics.add_points(conn, "job-many", 1, [Metric(ts=float(step), step=step, values=values)])
        asked = []
        event.listen(conn, "before_cursor_execute", lambda *statement: asked.append(statement))
        heads = {head.name: head for head in metrics.heads(conn, "job-many")}
        assert len(asked) < 10
        (one,) = metrics.heads(conn, "job-many", "layer/7")
    assert len(heads) == 1901
    assert heads["layer/7"] == one
    assert (one.points, one.first_step, one.last_step, one.low, one.last, one.last_time) == (3, 1, 300, 8.0, 307.0, 300)


def test_the_largest_steps_there_are_can_be_stored_and_read(engine):
    with engine.begin() as conn:
        conn.exec_driver_sql("PRAGMA foreign_keys = OFF")
        write(conn, "job-largest", 1, 2**63 - 1, [(2**63 - 2, 1.0), (2**63 - 1, 2.0), (5, 3.0)])
        write(conn, "job-largest", 2, 2**63 - 1, [(2**63 - 1, 4.0)])
        assert metrics.series(conn, "job-largest", "loss", 1).total >= 2
        assert metrics.heads(conn, "job-largest")[0].points >= 2
