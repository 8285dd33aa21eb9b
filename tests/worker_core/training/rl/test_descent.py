"""The hand-written gradients: equal to autograd's, and to what finite differences say."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from worker_core.training.rl.descent import Batch, Moments, NumpyDescent
from worker_core.training.rl.descent_torch import TorchDescent
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.spaces import read_actions
from worker_core.wire.spec import Ppo

SPACES = {
    "discrete": spaces.Discrete(3, start=1),
    "several discrete": spaces.MultiDiscrete([2, 4]),
    "box": spaces.Box(-1, 1, (2,), np.float32),
}
# More threads only wait for each other on networks of this size.
torch.set_num_threads(1)

SETTINGS = Ppo(ent_coef=0.02, vf_coef=0.7, clip_range=0.1, max_grad_norm=0.3)


def policy_for(space: gymnasium.Space[object], hidden: tuple[int, ...] = (8, 5)) -> Policy:
    policy = Policy(4, read_actions(space), hidden)
    policy.flat[:] = np.random.default_rng(5).normal(0, 0.4, policy.flat.shape)
    return policy


def batch_for(policy: Policy, rows: int = 20) -> Batch:
    rng = np.random.default_rng(6)
    observations = rng.normal(size=(rows, 4)).astype(np.float32)
    noise = policy.actions.noise(rng, 1, rows)[0]
    chosen = policy.choose(observations, noise)
    old = NumpyDescent(policy, SETTINGS).log_probability(observations, chosen)
    # Old probabilities a little off, so that some ratios lie beyond the clip range.
    old = old + rng.normal(0, 0.15, rows).astype(np.float32)
    advantages, returns = (rng.normal(size=rows).astype(np.float32) for _ in range(2))
    return Batch(observations, chosen, old, advantages, returns)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("hidden", [(8, 5), (6,), ()])
def test_both_back_ends_give_the_same_gradient_and_figures(name: str, hidden: tuple[int, ...]) -> None:
    policy = policy_for(SPACES[name], hidden)
    rows = batch_for(policy)
    by_hand, by_torch = NumpyDescent(policy, SETTINGS), TorchDescent(policy, SETTINGS, torch.device("cpu"))
    one = by_hand.differentiate(rows, told=True)
    other = by_torch.differentiate(by_torch.load(rows), told=True)
    assert np.abs(by_hand.gradient - by_torch.gradient.numpy()).max() < 1e-6
    assert one is not None
    assert other is not None
    assert np.allclose(one, other, atol=1e-5)
    assert 0 < one.clip_fraction < 1


@pytest.mark.parametrize("name", SPACES)
def test_both_back_ends_take_the_same_steps(name: str) -> None:
    mine, theirs = policy_for(SPACES[name]), policy_for(SPACES[name])
    rows = batch_for(mine)
    by_hand, by_torch = NumpyDescent(mine, SETTINGS), TorchDescent(theirs, SETTINGS, torch.device("cpu"))
    for _ in range(20):
        by_hand.step(rows, 1e-2, told=False)
        by_torch.step(by_torch.load(rows), 1e-2, told=False)
    by_torch.finish()
    assert np.abs(mine.flat - theirs.flat).max() < 1e-4
    assert by_hand.moments().steps == by_torch.moments().steps == 20
    assert np.allclose(by_hand.values(rows.observations), by_torch.values(rows.observations), atol=1e-4)
    assert np.allclose(
        by_hand.log_probability(rows.observations, rows.chosen),
        by_torch.log_probability(rows.observations, rows.chosen),
        atol=1e-4,
    )


def test_a_gradient_by_hand_is_what_finite_differences_say() -> None:
    policy = policy_for(SPACES["box"])
    rows, descent = batch_for(policy), NumpyDescent(policy, SETTINGS)
    descent.differentiate(rows, told=False)
    gradient = descent.gradient.copy()
    for index in np.random.default_rng(1).integers(0, len(policy.flat), 12):
        losses = []
        for shift in (1e-2, -2e-2):
            policy.flat[index] += shift
            figures = descent.differentiate(rows, told=True)
            assert figures is not None
            losses.append(figures.loss)
        policy.flat[index] += 1e-2
        assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(gradient[index], abs=2e-2)


def test_torch_continues_from_what_adam_remembered() -> None:
    straight, resumed = policy_for(SPACES["discrete"]), policy_for(SPACES["discrete"])
    rows = batch_for(straight)
    first = TorchDescent(straight, SETTINGS, torch.device("cpu"))
    first.step(first.load(rows), 1e-2, told=False)
    first.finish()
    kept, weights = first.moments(), straight.flat.copy()
    saved = Moments(kept.first.copy(), kept.second.copy(), kept.steps)
    first.step(first.load(rows), 1e-2, told=False)
    first.finish()
    resumed.flat[:] = weights
    second = TorchDescent(resumed, SETTINGS, torch.device("cpu"))
    second.restore(saved)
    second.step(second.load(rows), 1e-2, told=False)
    second.finish()
    assert np.array_equal(straight.flat, resumed.flat)


def test_a_nan_in_the_gradient_reaches_the_weights_where_it_is_found() -> None:
    policy = policy_for(SPACES["discrete"])
    rows = batch_for(policy)
    rows.advantages[3] = np.nan
    NumpyDescent(policy, SETTINGS).step(rows, 1e-2, told=False)
    assert not np.isfinite(policy.flat).all()
