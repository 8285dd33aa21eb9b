"""Benchmarks of a training session: the untrained policy against the trained one on the same starts."""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.storage.metrics import MetricHead
from worker_core.wire.codec import number_from_wire

FIGURES = ("mean", "median", "std", "min", "max", "ci95", "success_rate")


@dataclass(frozen=True)
class Row:
    """One skill in one scenario, before and after training."""

    skill: str
    scenario: str
    before: dict[str, float]
    after: dict[str, float]

    @property
    def gain(self) -> float | None:
        """How much the mean return grew."""
        if "mean" in self.before and "mean" in self.after:
            return self.after["mean"] - self.before["mean"]
        return None


def benchmark_rows(heads: Sequence[MetricHead]) -> list[Row]:
    """Return the rows found in the metrics ``benchmark/[initial/]<skill>/<scenario>/<figure>``."""
    rows: dict[tuple[str, str], Row] = {}
    for head in heads:
        parts = head.name.split("/")
        initial = parts[:2] == ["benchmark", "initial"] and len(parts) == 5
        if parts[0] != "benchmark" or parts[-1] not in FIGURES or not (initial or len(parts) == 4):
            continue
        skill, scenario, figure = parts[-3:]
        row = rows.setdefault((skill, scenario), Row(skill, scenario, {}, {}))
        (row.before if initial else row.after)[figure] = number_from_wire(head.last)
    return [rows[key] for key in sorted(rows)]
