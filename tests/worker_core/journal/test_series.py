"""Histories in constant memory: no extreme is ever lost."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_core.journal.series import MAX_BUCKETS, BadSeries, Buckets, BucketSeries

STEPS = st.integers(0, 2**62)
VALUES = st.floats(allow_nan=True, allow_infinity=True)
POINTS = st.lists(st.tuples(STEPS, VALUES), max_size=200)


def series_of(points: list[tuple[int, float]]) -> BucketSeries:
    series = BucketSeries()
    for step, value in points:
        series.add(step, value)
    return series


def bucket_of(buckets: Buckets, step: int) -> int:
    return next(i for i in reversed(range(len(buckets.lows))) if buckets.steps[i] <= step)


@given(POINTS, st.integers(1, 50))
def test_every_value_lies_within_the_bucket_of_its_step(points: list[tuple[int, float]], most: int) -> None:
    buckets = series_of(points).buckets(most)
    assert len(buckets.lows) <= most
    assert buckets.count == len(points)
    assert list(buckets.steps) == sorted(set(buckets.steps))
    for step, value in points:
        place = bucket_of(buckets, step)
        assert step < buckets.steps[place + 1]
        assert math.isnan(value) or buckets.lows[place] <= value <= buckets.highs[place]


@given(POINTS.filter(lambda points: any(not math.isnan(value) for _, value in points)), st.integers(1, 50))
def test_lowest_and_highest_value_are_kept_exactly(points: list[tuple[int, float]], most: int) -> None:
    buckets = series_of(points).buckets(most)
    numbers = [value for _, value in points if not math.isnan(value)]
    assert min(low for low in buckets.lows if not math.isnan(low)) == min(numbers)
    assert max(high for high in buckets.highs if not math.isnan(high)) == max(numbers)


@given(POINTS)
def test_a_packed_series_comes_back_the_same(points: list[tuple[int, float]]) -> None:
    series = series_of(points)
    assert BucketSeries.unpack(series.pack()).pack() == series.pack()


@given(st.binary(max_size=200))
def test_bytes_that_are_no_series_are_refused_or_read_but_never_crash(packed: bytes) -> None:
    try:
        BucketSeries.unpack(packed)
    except BadSeries:
        return


def test_a_million_points_take_the_memory_of_1200_buckets() -> None:
    series = BucketSeries()
    for step in range(0, 1_000_000, 7):
        series.add(step, math.sin(step))
    assert MAX_BUCKETS // 2 <= len(series) <= MAX_BUCKETS
    assert len(series.pack()) < 40_000


def test_the_newest_value_of_a_bucket_is_its_last() -> None:
    buckets = series_of([(0, 1.0), (0, 5.0), (0, 3.0)]).buckets()
    assert (buckets.lows, buckets.highs, buckets.last) == ((1.0,), (5.0,), (3.0,))


def test_not_a_number_stands_only_where_there_is_no_number() -> None:
    buckets = series_of([(0, math.nan), (1, math.nan), (1, 2.0)]).buckets()
    assert math.isnan(buckets.lows[0])
    assert (buckets.lows[1], buckets.highs[1]) == (2.0, 2.0)


def test_a_packed_series_with_a_wrong_length_is_refused() -> None:
    with pytest.raises(BadSeries):
        BucketSeries.unpack(series_of([(1, 1.0)]).pack()[:-1])
