"""History of one metric in constant memory: buckets that keep the lowest and the highest value of their steps.

A bucket covers ``width`` steps. When there are more than :data:`MAX_BUCKETS`, neighbours merge and the width doubles,
so no extreme is ever lost, only its exact step.
"""

import math
import struct
from array import array
from bisect import bisect_left
from dataclasses import dataclass

MAX_BUCKETS = 1200
_HEAD = struct.Struct("<QQQ")


class BadSeries(ValueError):
    """Bytes that are not a packed series."""


@dataclass(frozen=True)
class Buckets:
    """What is drawn: bucket i covers steps[i] to steps[i+1]; its last value is the newest one in it."""

    steps: tuple[int, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    last: tuple[float, ...]
    count: int


class BucketSeries:
    """The buckets of one metric, sorted by step; buckets without a value do not exist."""

    def __init__(self) -> None:
        self._width = 1
        self._count = 0
        self._index = array("q")
        self._low = array("d")
        self._high = array("d")
        self._last = array("d")

    def __len__(self) -> int:
        return len(self._index)

    @property
    def count(self) -> int:
        """How many values were added."""
        return self._count

    def add(self, step: int, value: float) -> None:
        """Add one value; steps may come in any order, though later ones are usual."""
        self._count += 1
        index = step // self._width
        if not self._index or index > self._index[-1]:
            self._insert(len(self._index), index, value)
        else:
            place = bisect_left(self._index, index)
            if self._index[place] == index:
                self._widen(place, value, value, value)
            else:
                self._insert(place, index, value)
        while len(self._index) > MAX_BUCKETS:
            self._double()

    def buckets(self, most: int = MAX_BUCKETS) -> Buckets:
        """Return at most ``most`` buckets, neighbours merged where there are more."""
        series = self
        if len(self) > most:
            series = self._copy()
            while len(series) > max(1, most):
                series._double()
        edges = [index * series._width for index in series._index]
        if edges:
            edges.append(edges[-1] + series._width)
        return Buckets(tuple(edges), tuple(series._low), tuple(series._high), tuple(series._last), self._count)

    def pack(self) -> bytes:
        """Return the series as bytes for the journal."""
        columns = (self._index, self._low, self._high, self._last)
        return _HEAD.pack(self._width, self._count, len(self)) + b"".join(column.tobytes() for column in columns)

    @classmethod
    def unpack(cls, packed: bytes) -> "BucketSeries":
        """Return the series that :meth:`pack` wrote; raises :class:`BadSeries`."""
        if len(packed) < _HEAD.size:
            raise BadSeries("the head is cut off")
        series = cls()
        series._width, series._count, length = _HEAD.unpack_from(packed)
        if len(packed) != _HEAD.size + 32 * length:
            raise BadSeries(f"{len(packed)} bytes cannot be {length} buckets")
        columns = (series._index, series._low, series._high, series._last)
        for number, column in enumerate(columns):
            start = _HEAD.size + 8 * length * number
            column.frombytes(packed[start : start + 8 * length])
        return series

    def _insert(self, place: int, index: int, value: float) -> None:
        self._index.insert(place, index)
        for column in (self._low, self._high, self._last):
            column.insert(place, value)

    def _widen(self, place: int, low: float, high: float, last: float) -> None:
        self._low[place] = _lower(self._low[place], low)
        self._high[place] = _higher(self._high[place], high)
        self._last[place] = last

    def _double(self) -> None:
        """Merge the buckets so that each covers twice the steps."""
        old = zip(self._index, self._low, self._high, self._last, strict=True)
        self._width *= 2
        self._index, self._low, self._high, self._last = array("q"), array("d"), array("d"), array("d")
        for index, low, high, last in old:
            if self._index and self._index[-1] == index // 2:
                self._widen(len(self._index) - 1, low, high, last)
            else:
                self._index.append(index // 2)
                self._low.append(low)
                self._high.append(high)
                self._last.append(last)

    def _copy(self) -> "BucketSeries":
        return BucketSeries.unpack(self.pack())


def _lower(one: float, other: float) -> float:
    # NaN stands only where there is no number to show.
    if math.isnan(one) or math.isnan(other):
        return other if math.isnan(one) else one
    return min(one, other)


def _higher(one: float, other: float) -> float:
    if math.isnan(one) or math.isnan(other):
        return other if math.isnan(one) else one
    return max(one, other)
