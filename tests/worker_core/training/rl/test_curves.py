"""Learning curves: bounded, the same over all attempts, and drawn for any numbers."""

import json
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from worker_core.training.rl.curves import EVALUATION, MOST_POINTS, RETURN, SUCCESS, Curves, draw_curves, ticks

_BLUE, _GREEN = (31, 95, 180), (43, 122, 61)


def picture(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


def rows_of(image: Image.Image, colour: tuple[int, int, int], left: int, right: int) -> list[int]:
    """Return the rows, below the legend, of pixels that are nearly of this colour."""
    pixels: Any = np.asarray(image).astype(int)[100:, left:right]
    return [100 + int(y) for y in np.flatnonzero((abs(pixels - colour) < 30).all(axis=2).any(axis=1))]


def test_a_long_session_keeps_the_shape_of_its_curve_in_bounded_room() -> None:
    curves = Curves()
    for step in range(10_000):
        curves.add(step, {RETURN: float(step)})
    points = curves.points()[RETURN]
    assert MOST_POINTS // 2 < len(points) <= MOST_POINTS
    assert (points[0], points[-1]) == ((0, 0.0), (9_999, 9_999.0))
    assert points == sorted(points)


def test_curves_go_on_after_a_resume_as_if_there_had_been_none() -> None:
    straight, first = Curves(), Curves()
    values = [(step * 64, {RETURN: step**0.5, "train/loss": 1.0}) for step in range(3_000)]
    for step, value in values:
        straight.add(step, value)
    for step, value in values[:1_700]:
        first.add(step, value)
    second = Curves(json.loads(json.dumps(first.points())))
    for step, value in values[1_700:]:
        second.add(step, value)
    assert second.points() == straight.points()


def test_what_is_no_number_has_no_place_on_a_curve() -> None:
    curves = Curves()
    curves.add(1, {RETURN: float("nan"), EVALUATION: float("inf"), SUCCESS: 0.5})
    assert curves.points() == {SUCCESS: [(1, 0.5)]}


def test_the_picture_shows_the_curve_and_a_success_rate_where_there_is_one() -> None:
    rising = [(step, float(step)) for step in range(100)]
    alone = picture(draw_curves("one", {RETURN: rising}, {"untrained": 3.0}))
    both = picture(draw_curves("one", {RETURN: rising, SUCCESS: [(50, 0.1), (99, 0.9)]}, {}))
    assert both.height > alone.height
    assert rows_of(both, _GREEN, 100, 950)
    assert not rows_of(alone, _GREEN, 100, 950)
    # The curve rises: low at the left, high at the right.
    assert min(rows_of(alone, _BLUE, 100, 120)) > max(rows_of(alone, _BLUE, 910, 935))


@pytest.mark.parametrize("value", [0.0, 9.5, -3e12, 1e-9])
def test_a_session_that_always_earns_the_same_has_a_picture_too(value: float) -> None:
    assert picture(draw_curves("flat", {RETURN: [(64, value)]}, {"untrained": value})).width == 960


def test_a_session_without_a_point_has_empty_axes() -> None:
    assert picture(draw_curves("none", {}, {"untrained": float("nan")})).width == 960


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12))
def test_axes_have_a_few_round_numbers_within_their_bounds(low: float, width: float) -> None:
    width = max(width, abs(low) * 1e-6)
    found = ticks(low, low + width)
    assert 2 <= len(found) <= 7
    assert found == sorted(set(found))
    assert found[0] >= low - width * 1e-3
    assert found[-1] <= low + width * 1.001
