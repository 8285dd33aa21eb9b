"""Running statistics: those of everything seen, however it was cut."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from worker_core.training.rl.moments import CLIP, RewardScale, RunningMoments

ROWS = arrays(np.float64, st.tuples(st.integers(2, 40), st.just(2)), elements=st.floats(-1e3, 1e3))


@given(rows=ROWS, cut=st.integers(1, 39))
def test_moments_do_not_depend_on_how_rows_arrive(rows: np.ndarray, cut: int) -> None:
    moments = RunningMoments(2)
    for part in (rows[:cut], rows[cut:]):
        if len(part):
            moments.take_in(part)
    assert np.allclose(moments.mean, rows.mean(axis=0))
    assert np.allclose(moments.variance, rows.var(axis=0), atol=1e-6)


def test_normalised_rows_are_cut() -> None:
    moments = RunningMoments(1)
    moments.take_in(np.array([[0.0], [2.0]]))
    assert moments.normalise(np.array([[1.0], [1e9], [-1e9]], np.float32)).ravel().tolist() == [0, CLIP, -CLIP]


def test_rewards_are_divided_by_the_spread_of_discounted_returns_that_begin_anew_with_each_episode() -> None:
    rewards, ends = np.array([[1.0], [2.0], [4.0]], np.float32), np.array([[0.0], [1.0], [0.0]], np.float32)
    scaled = RewardScale(1, 0.5).scale(rewards, ends)
    spread = np.std([1.0, 0.5 * 1.0 + 2.0, 4.0])
    assert np.allclose(scaled, rewards / spread)


def test_moments_and_scales_come_back_from_arrays() -> None:
    one, other = RewardScale(2, 0.9), RewardScale(2, 0.9)
    rng = np.random.default_rng(0)
    rewards, ends = rng.normal(size=(2, 8, 2)).astype(np.float32), (rng.random((2, 8, 2)) < 0.2).astype(np.float32)
    one.scale(rewards[0], ends[0])
    other.restore({name: array.copy() for name, array in one.arrays().items()})
    assert np.array_equal(one.scale(rewards[1], ends[1]), other.scale(rewards[1], ends[1]))
