"""Running statistics: those of everything seen, however it was cut."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from worker_core.training.rl.moments import CLIP, RewardScale, RunningMoments, discount

ROWS = arrays(np.float64, st.tuples(st.integers(2, 40), st.just(2)), elements=st.floats(-1e3, 1e3))


@given(rows=ROWS, cut=st.integers(1, 39))
def test_moments_do_not_depend_on_how_rows_arrive(rows: np.ndarray, cut: int) -> None:
    moments = RunningMoments(2)
    for part in (rows[:cut], rows[cut:]):
        if len(part):
            moments.take_in(part.T)
    assert np.allclose(moments.mean, rows.mean(axis=0))
    assert np.allclose(moments.variance, rows.var(axis=0), atol=1e-6)


def test_normalised_rows_are_cut() -> None:
    moments = RunningMoments(1)
    moments.take_in(np.array([[0.0, 2.0]]))
    out = np.empty((1, 3), np.float32)
    moments.normalise(np.array([[1.0, 1e9, -1e9]], np.float32), out)
    assert out.tolist() == [[0, CLIP, -CLIP]]


def discounted(rewards: np.ndarray, ends: np.ndarray, running: np.ndarray, gamma: float) -> np.ndarray:
    out = np.empty_like(rewards)
    discount(rewards, ends, running, gamma, out)
    return out


def test_rewards_are_divided_by_the_spread_of_discounted_returns_that_begin_anew_with_each_episode() -> None:
    rewards, ends = np.array([[1.0], [2.0], [4.0]], np.float32), np.array([[0.0], [1.0], [0.0]], np.float32)
    running = np.zeros(1)
    scale = RewardScale()
    scale.take_in(discounted(rewards, ends, running, 0.5))
    spread = np.std([1.0, 0.5 * 1.0 + 2.0, 4.0])
    assert np.allclose(scale.scale(rewards), rewards / spread)
    assert running == 4.0  # the next rollout goes on from here


def test_moments_and_scales_come_back_from_arrays() -> None:
    one, other = RewardScale(), RewardScale()
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=(2, 8, 2)).astype(np.float32)
    one.take_in(rewards[0])
    other.restore({name: array.copy() for name, array in one.arrays().items()})
    for scale in (one, other):
        scale.take_in(rewards[1])
    assert np.array_equal(one.scale(rewards[1]), other.scale(rewards[1]))
