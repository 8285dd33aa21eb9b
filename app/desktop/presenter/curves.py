"""Curves of the live-metrics window: the core's buckets, followed by points as they come. Constant memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan

from worker_core.control.messages import MAX_BUCKETS, Series
from worker_core.wire.codec import Number, number_from_wire

RETURN = "rollout/ep_rew_mean"
LOSS = "train/loss"
SPEED = "time/fps"
SHOWN_METRICS: tuple[str, ...] = (RETURN, LOSS, SPEED)
MAX_FAULTS = 50


@dataclass
class Curve:
    """Min/max buckets of one metric; neighbours are merged when there are more than ``limit``."""

    limit: int = MAX_BUCKETS
    steps: list[int] = field(default_factory=list[int])
    lows: list[float] = field(default_factory=list[float])
    highs: list[float] = field(default_factory=list[float])
    last: list[float] = field(default_factory=list[float])
    faults: list[int] = field(default_factory=list[int])
    """Steps at which the value was NaN or infinite, the newest ``MAX_FAULTS`` of them."""
    newest: Number | None = None

    def load(self, series: Series) -> None:
        """Replace all by the core's history."""
        for values in (self.steps, self.lows, self.highs, self.last, self.faults):
            values.clear()
        for step, low, high, last in zip(series.steps, series.lows, series.highs, series.last, strict=False):
            self._append(step, number_from_wire(low), number_from_wire(high), number_from_wire(last))
        self.newest = series.last[-1] if series.last else None

    def add(self, step: int, value: Number) -> None:
        """Append one point; a step that is already there was told twice and is left out."""
        if self.steps and step <= self.steps[-1]:
            return
        self.newest = value
        number = number_from_wire(value)
        self._append(step, number, number, number)

    def _append(self, step: int, low: float, high: float, last: float) -> None:
        if not (isfinite(low) and isfinite(high) and isfinite(last)):
            self.faults = [*self.faults, step][-MAX_FAULTS:]
        self.steps.append(step)
        for values, value in ((self.lows, low), (self.highs, high), (self.last, last)):
            values.append(value if isfinite(value) else nan)
        if len(self.steps) > self.limit:
            self._halve()

    def _halve(self) -> None:
        self.steps = self.steps[::2]
        self.lows = _merge(self.lows, min)
        self.highs = _merge(self.highs, max)
        self.last = _merge(self.last, _newer)


def _merge(values: Sequence[float], choose: Callable[[Sequence[float]], float]) -> list[float]:
    """Merge neighbours; an odd one at the end stays alone."""
    return [_of_finite(values[at : at + 2], choose) for at in range(0, len(values), 2)]


def _of_finite(values: Sequence[float], choose: Callable[[Sequence[float]], float]) -> float:
    finite = [value for value in values if isfinite(value)]
    return choose(finite) if finite else nan


def _newer(values: Sequence[float]) -> float:
    return values[-1]
