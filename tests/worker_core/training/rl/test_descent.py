"""The hand-written gradients: equal to autograd's, and to what finite differences say."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from worker_core.training.rl.descent import SUMS, Batch, Figures, Moments, NumpyDescent
from worker_core.training.rl.descent_torch import TorchDescent
from worker_core.training.rl.joint import Joint
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.spaces import Floats, read_actions
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


def by_hand_on(policy: Policy) -> NumpyDescent:
    return NumpyDescent(policy, Joint(policy), SETTINGS)


def by_torch_on(policy: Policy) -> TorchDescent:
    return TorchDescent(policy, Joint(policy), SETTINGS, torch.device("cpu"))


def batch_for(policy: Policy, rows: int = 20) -> Batch:
    rng = np.random.default_rng(6)
    inputs = np.vstack((rng.normal(size=(4, rows)), np.ones((1, rows)))).astype(np.float32)
    outputs, log_std = Joint(policy).act(inputs), policy.log_std
    noise = policy.actions.noise(rng, 1, rows)[0]
    chosen = policy.actions.choose(outputs, noise if log_std is None else noise * np.exp(log_std)[:, None])
    old = by_hand_on(policy).log_probability(inputs, chosen)
    # Old probabilities a little off, so that some ratios lie beyond the clip range.
    old = old + rng.normal(0, 0.15, rows).astype(np.float32)
    advantages, returns = (rng.normal(size=rows).astype(np.float32) for _ in range(2))
    return Batch(inputs, chosen, old, advantages, returns)


def step(descent: NumpyDescent | TorchDescent, rows: Batch, parts: int = 1) -> Figures:
    """Take one step, the rows cut into so many parts."""
    count = len(rows.returns)
    slots = np.zeros((parts, descent.slot), np.float32)
    for part in range(parts):
        share = rows.part(count * part // parts, count * (part + 1) // parts)
        descent.differentiate(descent.load(share), count, slots[part], told=True)
    figures = descent.descend(slots, count, 1e-2, told=True)
    assert figures is not None
    return figures


def unclipped(policy: Policy, rows: Batch) -> tuple[Floats, Figures]:
    """Return the whole gradient in the policy's order, and the figures."""
    joint = Joint(policy)
    descent = NumpyDescent(policy, joint, SETTINGS)
    slot = np.zeros(descent.slot, np.float32)
    descent.differentiate(rows, len(rows.returns), slot, told=True)
    figures = descent.descend(slot[None], len(rows.returns), 0.0, told=True)
    assert figures is not None
    return joint.plain(slot[:-SUMS]), figures


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("hidden", [(8, 5), (6,), ()])
def test_both_back_ends_give_the_same_gradient_and_figures(name: str, hidden: tuple[int, ...]) -> None:
    policy = policy_for(SPACES[name], hidden)
    rows = batch_for(policy)
    gradient, one = unclipped(policy, rows)
    by_torch = by_torch_on(policy)
    by_torch.differentiate(by_torch.load(rows), len(rows.returns), np.zeros(0, np.float32), told=True)
    assert np.abs(gradient - by_torch.gradient.numpy()).max() < 1e-6
    other = by_torch.descend(np.zeros((1, 0), np.float32), len(rows.returns), 0.0, told=True)
    assert other is not None
    assert np.allclose(one, other, atol=1e-5)
    assert 0 < one.clip_fraction < 1


@pytest.mark.parametrize("name", SPACES)
def test_both_back_ends_take_the_same_steps(name: str) -> None:
    mine, theirs = policy_for(SPACES[name]), policy_for(SPACES[name])
    rows = batch_for(mine)
    by_hand, by_torch = by_hand_on(mine), by_torch_on(theirs)
    for _ in range(20):
        step(by_hand, rows)
        step(by_torch, rows)
    by_hand.finish()
    by_torch.finish()
    assert np.abs(mine.flat - theirs.flat).max() < 1e-4
    assert by_hand.moments().steps == by_torch.moments().steps == 20
    assert np.allclose(by_hand.values(rows.inputs), by_torch.values(rows.inputs), atol=1e-4)
    assert np.allclose(
        by_hand.log_probability(rows.inputs, rows.chosen), by_torch.log_probability(rows.inputs, rows.chosen), atol=1e-4
    )


@pytest.mark.parametrize("name", SPACES)
def test_a_minibatch_in_parts_is_the_whole_minibatch(name: str) -> None:
    whole, cut = policy_for(SPACES[name]), policy_for(SPACES[name])
    rows = batch_for(whole, 23)
    one, other = by_hand_on(whole), by_hand_on(cut)
    for _ in range(5):
        assert np.allclose(step(one, rows), step(other, rows, parts=3), atol=1e-5)
    one.finish()
    other.finish()
    assert np.abs(whole.flat - cut.flat).max() < 1e-5


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("hidden", [(8, 5), (6,), ()])
def test_weights_come_back_from_the_order_in_which_they_are_worked_on(name: str, hidden: tuple[int, ...]) -> None:
    policy = policy_for(SPACES[name], hidden)
    joint = Joint(policy)
    assert np.array_equal(joint.plain(joint.flat), policy.flat)
    assert np.array_equal(joint.plain(joint.arranged(policy.flat)), policy.flat)


def test_a_gradient_by_hand_is_what_finite_differences_say() -> None:
    policy = policy_for(SPACES["box"])
    rows = batch_for(policy)
    gradient, _ = unclipped(policy, rows)
    for index in np.random.default_rng(1).integers(0, len(policy.flat), 12):
        losses = []
        for shift in (1e-2, -2e-2):
            policy.flat[index] += shift
            losses.append(unclipped(policy, rows)[1].loss)
        policy.flat[index] += 1e-2
        assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(gradient[index], abs=2e-2)


def test_torch_continues_from_what_adam_remembered() -> None:
    straight, resumed = policy_for(SPACES["discrete"]), policy_for(SPACES["discrete"])
    rows = batch_for(straight)
    first = by_torch_on(straight)
    step(first, rows)
    first.finish()
    kept, weights = first.moments(), straight.flat.copy()
    saved = Moments(kept.first.copy(), kept.second.copy(), kept.steps)
    step(first, rows)
    first.finish()
    resumed.flat[:] = weights
    second = by_torch_on(resumed)
    second.restore(saved)
    step(second, rows)
    second.finish()
    assert np.array_equal(straight.flat, resumed.flat)


def test_a_nan_in_the_gradient_reaches_the_weights_where_it_is_found() -> None:
    policy = policy_for(SPACES["discrete"])
    rows, descent = batch_for(policy), by_hand_on(policy)
    rows.advantages[3] = np.nan
    step(descent, rows)
    descent.finish()
    assert not np.isfinite(policy.flat).all()


def test_memory_for_passes_does_not_grow_with_every_number_of_rows_that_comes() -> None:
    joint = Joint(policy_for(SPACES["discrete"]))
    for rows in range(1, 100):
        joint.judge(np.ones((5, rows), np.float32))
    assert len(joint._spaces) == 16
