"""Metric histories: in memory while an attempt is held, saved now and then, and kept after its end."""

from collections.abc import Iterable

from worker_core.journal.driver import Connection
from worker_core.journal.records import HistoryAttempt
from worker_core.journal.series import BadSeries, Buckets, BucketSeries
from worker_core.wire.codec import decode, number_from_wire
from worker_core.wire.events import Metric

MAX_NAMES = 200
KEPT_ATTEMPTS = 20

PackedHistory = list[tuple[str, bytes]]


class History:
    """The series of one held attempt."""

    def __init__(self) -> None:
        self._series: dict[str, BucketSeries] = {}
        self._dirty: set[str] = set()

    @property
    def dirty(self) -> bool:
        return bool(self._dirty)

    def add(self, metric: Metric) -> None:
        """Add the values of one step; names beyond :data:`MAX_NAMES` have no history."""
        for name, value in metric.values.items():
            series = self._series.get(name)
            if series is None:
                if len(self._series) >= MAX_NAMES:
                    continue
                series = self._series[name] = BucketSeries()
            series.add(metric.step, number_from_wire(value))
            self._dirty.add(name)

    def read(self, names: Iterable[str], most: int) -> dict[str, Buckets]:
        """Return the series of ``names``; no names means all."""
        wanted = tuple(names) or tuple(self._series)
        return {name: self._series[name].buckets(most) for name in wanted if name in self._series}

    def names(self) -> tuple[str, ...]:
        return tuple(self._series)

    def take_changed(self) -> PackedHistory:
        """Return the series that changed since the last call, packed."""
        packed = [(name, self._series[name].pack()) for name in sorted(self._dirty)]
        self._dirty.clear()
        return packed

    def put_back(self, packed: PackedHistory) -> None:
        """Count series as changed again, because saving them failed."""
        self._dirty.update(name for name, _ in packed)

    @classmethod
    def load(cls, connection: Connection, attempt_id: str) -> "History":
        """Return the saved series of an attempt; one that cannot be read is left out."""
        history = cls()
        rows = connection.execute("SELECT name, buckets FROM series WHERE attempt_id = ?", (attempt_id,))
        for name, packed in rows.fetchall():
            try:
                history._series[name] = BucketSeries.unpack(packed)
            except BadSeries:
                connection.execute("DELETE FROM series WHERE attempt_id = ? AND name = ?", (attempt_id, name))
        return history


def save_history(connection: Connection, attempt_id: str, packed: PackedHistory, up_to_seq: int) -> None:
    """Save series that hold every event below ``up_to_seq``."""
    connection.executemany(
        "INSERT OR REPLACE INTO series (attempt_id, name, buckets) VALUES (?, ?, ?)",
        [(attempt_id, name, buckets) for name, buckets in packed],
    )
    connection.execute("UPDATE attempt SET series_seq = ? WHERE attempt_id = ?", (up_to_seq, attempt_id))


def list_history(connection: Connection) -> list[HistoryAttempt]:
    """Return the attempts that have, or will have, a history; newest first."""
    rows = connection.execute(
        """SELECT a.attempt_id, a.job_id, a.job_name, a.ordinal, a.created,
                  (SELECT json_group_array(name) FROM series s WHERE s.attempt_id = a.attempt_id)
           FROM attempt a ORDER BY a.created DESC, a.attempt_id DESC LIMIT ?""",
        (KEPT_ATTEMPTS,),
    ).fetchall()
    return [_shown(*row) for row in rows]


def prune_histories(connection: Connection) -> None:
    """Remove the oldest attempts that nothing but their history keeps."""
    connection.execute(
        """DELETE FROM attempt WHERE forgotten = 1 AND attempt_id NOT IN (
               SELECT attempt_id FROM attempt ORDER BY created DESC, attempt_id DESC LIMIT ?)""",
        (KEPT_ATTEMPTS,),
    )


def _shown(attempt_id: str, job_id: str, job_name: str, ordinal: int, created: float, names: str) -> HistoryAttempt:
    return HistoryAttempt(
        attempt_id=attempt_id,
        job_id=job_id,
        job_name=job_name,
        attempt=ordinal,
        started=created,
        names=tuple(sorted(decode(names, list[str]))),
    )
