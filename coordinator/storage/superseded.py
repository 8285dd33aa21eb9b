"""Points that a session does not show: those of an older attempt from the first step of a newer one on."""

import msgspec
from sqlalchemy import Connection, func, select

from coordinator.storage.metrics import Bucket, metric_names, single_point, visible_steps
from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import metric_point


class Hidden(msgspec.Struct, frozen=True):
    """The steps of one attempt that a newer one hides: those from ``start`` on."""

    attempt: int
    start: int


def hidden_steps(conn: Connection, job_id: str) -> list[Hidden]:
    """Return per attempt, oldest first, from where on its steps are hidden; attempts that show all are left out."""
    a = attempt_table.c
    ends = {span.attempt: span.end for span in visible_steps(conn, job_id)}
    reached = select(a.ordinal, a.step).where(a.job_id == job_id, a.first_step.is_not(None)).order_by(a.ordinal)
    return [
        Hidden(ordinal, ends.get(ordinal, 0))
        for ordinal, step in conn.execute(reached)
        if step is not None and step >= ends.get(ordinal, 0)
    ]


def superseded_points(conn: Connection, job_id: str, name: str, buckets: int) -> list[Bucket]:
    """Return the hidden points of a metric, of each attempt at most about ``buckets``: the last of neighbours."""
    key = metric_names(conn, job_id).get(name)
    if key is None:
        return []
    return [bucket for hidden in hidden_steps(conn, job_id) for bucket in _of_attempt(conn, key, hidden, buckets)]


def _of_attempt(conn: Connection, key: int, hidden: Hidden, buckets: int) -> list[Bucket]:
    p = metric_point.c
    of = (p.metric_id == key, p.ordinal == hidden.attempt, p.step >= hidden.start)
    low, high = conn.execute(select(func.min(p.step), func.max(p.step)).where(*of)).one()
    if low is None:
        return []
    width = max(1, -(-(high - low + 1) // buckets))
    last = select(func.max(p.step)).where(*of).group_by((p.step - low) // width)
    rows = conn.execute(select(p.step, p.value).where(*of, p.step.in_(last)).order_by(p.step)).all()
    return [single_point(hidden.attempt, step, value) for step, value in rows]
