"""A curve keeps its extremes in constant memory and never hides a value that is none."""

from math import isfinite

from hypothesis import given
from hypothesis import strategies as st

from app.desktop.presenter.curves import MAX_FAULTS, Curve
from worker_core.control.messages import Series

numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
values = numbers | st.sampled_from(["NaN", "Infinity", "-Infinity"])


@given(st.lists(values, max_size=400))
def test_any_stream_stays_bounded_and_keeps_its_lowest_and_highest(points: list[float]) -> None:
    curve = Curve(limit=20)
    for step, value in enumerate(points):
        curve.add(step, value)
    assert len(curve.steps) == len(curve.lows) == len(curve.highs) == len(curve.last) <= 20
    assert curve.steps == sorted(set(curve.steps))
    finite = [float(value) for value in points if isfinite(float(value))]
    if finite:
        assert min(low for low in curve.lows if isfinite(low)) == min(finite)
        assert max(high for high in curve.highs if isfinite(high)) == max(finite)
    assert curve.newest == (points[-1] if points else None)


def test_a_point_told_twice_is_drawn_once() -> None:
    curve = Curve()
    curve.load(Series(steps=(0, 10), lows=(1.0, 2.0), highs=(1.0, 2.0), last=(1.0, 2.0), count=2))
    curve.add(10, 2.0)
    curve.add(20, 3.0)
    assert curve.steps == [0, 10, 20]
    assert curve.newest == 3.0


def test_nan_is_remembered_with_its_step_and_the_newest_only_so_many() -> None:
    curve = Curve()
    for step in range(MAX_FAULTS + 5):
        curve.add(step, "NaN")
    assert curve.newest == "NaN"
    assert len(curve.faults) == MAX_FAULTS
    assert curve.faults[-1] == MAX_FAULTS + 4


def test_history_replaces_what_was_there() -> None:
    curve = Curve()
    curve.add(5, 1.0)
    curve.load(Series(steps=(1,), lows=(0.0,), highs=(2.0,), last=("NaN",), count=3))
    assert (curve.steps, curve.lows, curve.highs, curve.newest, curve.faults) == ([1], [0.0], [2.0], "NaN", [1])
