"""PPO (Schulman et al. 2017, arXiv:1707.06347), from top to bottom in the order of the paper.

One update is: collect a rollout of T steps in each of S simulators with the present policy; judge it with the critic;
estimate advantages; improve the policy with K passes of minibatches over the clipped objective. Names follow the paper
where it has them: r_t(θ) is ``ratio``, Â_t ``advantages``, ε ``clip_range``, γ ``gamma``, λ ``gae_lambda``.

Two things are done once after the rollout instead of at each step, with the same numbers: values V(s) and log π(a|s).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.descent import Batch, Descent, Figures
from worker_core.training.rl.moments import RewardScale, RunningMoments
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.simulators import BadSimulatorValue, CutOff, Simulators
from worker_core.training.rl.spaces import Floats
from worker_core.wire.spec import Ppo

Stats = dict[str, float]


@dataclass(frozen=True)
class Rollout:
    """T steps of S simulators, as the policy saw them. Arrays are T x S, observations T x S x size."""

    observations: Floats
    chosen: NDArray[Any]
    rewards: Floats
    ends: Floats
    """1 where an episode ended with this step, terminated or truncated."""
    cut_offs: list[CutOff]
    last: Floats
    """What each simulator shows after the last step."""


class PpoLearner:
    """The learning half: holds the policy, what descends its loss, and the running statistics."""

    def __init__(self, policy: Policy, descent: Descent, settings: Ppo, simulators: int) -> None:
        self.policy = policy
        self.descent = descent
        self.settings = settings
        size = policy.actor[0][0].shape[1]
        self.observed = RunningMoments(size) if settings.normalize_observation else None
        self.reward_scale = RewardScale(simulators, settings.gamma) if settings.normalize_reward else None
        self.passes = 0
        """Passes over a rollout so far; SB3 calls them n_updates."""

    # 1. Collect: run π_old for T steps in every simulator.

    def collect(
        self, simulators: Simulators, steps: int, rng: np.random.Generator, tick: Callable[[int], None]
    ) -> Rollout:
        """Return a rollout of ``steps`` steps; ``tick`` hears of each of them."""
        actions = self.policy.actions
        noise = actions.noise(rng, steps, simulators.count)
        seen = np.empty((steps, *simulators.current.shape), np.float32)
        chosen = np.empty((steps, simulators.count, actions.columns), np.float32 if actions.continuous else np.int64)
        rewards = np.zeros((steps, simulators.count), np.float32)
        ends = np.zeros_like(rewards)
        for t in range(steps):
            seen[t] = simulators.current
            chosen[t] = self.policy.choose(self.normalised(simulators.current), noise[t])
            simulators.step(t, chosen[t], rewards[t], ends[t])
            tick(t)
        cut_offs = simulators.take_cut_offs()
        _refuse_non_finite("an observation", seen)
        _refuse_non_finite("an observation", simulators.current[None])
        for cut in cut_offs:
            _refuse_non_finite("an observation", cut.observation[None, None], cut.simulator)
        _refuse_non_finite("a reward", rewards)
        return self._scaled(Rollout(seen, chosen, rewards, ends, cut_offs, simulators.current))

    # 2. Judge and estimate: V(s), log π_old(a|s), and the advantage of each action (GAE, arXiv:1506.02438).

    def judge(self, rollout: Rollout) -> tuple[Batch, Floats]:
        """Return the rows to learn from, and V(s) of each."""
        observations, chosen = _rows(rollout.observations), _rows(rollout.chosen)
        values = self.descent.values(observations)
        advantages = self._advantages(rollout, values.reshape(rollout.rewards.shape)).ravel()
        old = self.descent.log_probability(observations, chosen)
        return Batch(observations, chosen, old, advantages, advantages + values), values

    def _advantages(self, rollout: Rollout, values: Floats) -> Floats:
        """Return Â_t. An episode that was only cut off goes on in the critic's eyes; one that terminated does not."""
        gamma = self.settings.gamma
        rewards = rollout.rewards.copy()
        if rollout.cut_offs:
            beyond = self.descent.values(np.stack([cut.observation for cut in rollout.cut_offs]))
            for cut, value in zip(rollout.cut_offs, beyond, strict=True):
                rewards[cut.step, cut.simulator] += gamma * value
        return gae(rewards, values, rollout.ends, self.descent.values(rollout.last), gamma, self.settings.gae_lambda)

    # 3. Improve: K passes over the rollout in minibatches.

    def learn(
        self, rollout: Rollout, learning_rate: float, rng: np.random.Generator, tick: Callable[[], None]
    ) -> Stats:
        """Improve the policy with one rollout and return the figures of this update; ``tick`` hears of each step."""
        rows, values = self.judge(rollout)
        figures: list[Figures] = []
        for number in range(self.settings.n_epochs):
            last = number == self.settings.n_epochs - 1
            for minibatch in self._minibatches(rows, rng):
                told = self.descent.step(minibatch, learning_rate, told=last)
                tick()
                if told is not None:
                    figures.append(told)
        self.descent.finish()
        self.passes += self.settings.n_epochs
        return self._stats(figures, learning_rate, values, rows.returns)

    def _minibatches(self, rows: Batch, rng: np.random.Generator) -> Iterator[Batch]:
        """Return the rows in a new order, cut into minibatches within each of which advantages are normalised."""
        size, count = self.settings.minibatch_size, len(rows.old)
        order = rng.permutation(count)
        shuffled = Batch(*(column[order] for column in rows))
        loaded = self.descent.load(shuffled._replace(advantages=normalised_in_groups(shuffled.advantages, size)))
        return (Batch(*(column[start : start + size] for column in loaded)) for start in range(0, count, size))

    def normalised(self, observations: Floats) -> Floats:
        """Return observations as the policy sees them; the statistics stand still within a rollout."""
        return observations if self.observed is None else self.observed.normalise(observations)

    def _scaled(self, rollout: Rollout) -> Rollout:
        """Return the rollout as the policy saw it, then let the running statistics take it in."""
        rewards = rollout.rewards
        if self.reward_scale is not None:
            rewards = self.reward_scale.scale(rewards, rollout.ends)
        observed = self.observed
        if observed is None:
            return Rollout(
                rollout.observations, rollout.chosen, rewards, rollout.ends, rollout.cut_offs, rollout.last.copy()
            )
        cut_offs = [CutOff(cut.step, cut.simulator, observed.normalise(cut.observation)) for cut in rollout.cut_offs]
        scaled = Rollout(
            observed.normalise(rollout.observations),
            rollout.chosen,
            rewards,
            rollout.ends,
            cut_offs,
            observed.normalise(rollout.last),
        )
        observed.take_in(_rows(rollout.observations))
        return scaled

    def _stats(self, figures: list[Figures], learning_rate: float, values: Floats, returns: Floats) -> Stats:
        means = Figures(*np.mean(figures, axis=0).tolist())
        spread = float(returns.var())
        return {
            "train/loss": means.loss,
            "train/policy_gradient_loss": means.policy_loss,
            "train/value_loss": means.value_loss,
            "train/entropy_loss": -means.entropy,
            "train/approx_kl": means.approx_kl,
            "train/clip_fraction": means.clip_fraction,
            "train/grad_norm": means.grad_norm,
            "train/explained_variance": float("nan") if spread == 0 else 1 - float((returns - values).var()) / spread,
            "train/learning_rate": learning_rate,
            "train/n_updates": float(self.passes),
        }


def gae(rewards: Floats, values: Floats, ends: Floats, last_values: Floats, gamma: float, gae_lambda: float) -> Floats:
    """Return generalised advantage estimates: Â_t = δ_t + γλ Â_{t+1}, where δ_t = r_t + γ V(s_{t+1}) - V(s_t)."""
    alive = 1 - ends
    following = np.concatenate((values[1:], last_values[None]))
    deltas = rewards + gamma * following * alive - values
    decay = np.float32(gamma * gae_lambda) * alive
    advantages = np.empty(deltas.shape, np.float32)
    running = np.zeros(last_values.shape, np.float32)
    for t in range(len(deltas) - 1, -1, -1):
        running = deltas[t] + decay[t] * running
        advantages[t] = running
    return advantages


def normalised_in_groups(advantages: Floats, size: int) -> Floats:
    """Return advantages with mean 0 and spread 1 within each minibatch; a minibatch of one stays as it is."""
    whole = len(advantages) // size * size
    parts: list[Floats] = []
    for groups in (advantages[:whole].reshape(-1, size), advantages[whole:].reshape(1, -1)):
        if groups.size and groups.shape[1] > 1:
            spread = groups.std(axis=1, ddof=1, keepdims=True) + np.float32(1e-8)
            parts.append(((groups - groups.mean(axis=1, keepdims=True)) / spread).ravel())
        else:
            parts.append(groups.ravel())
    return np.concatenate(parts)


def _rows(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(array.shape[0] * array.shape[1], -1)


def _refuse_non_finite(what: str, array: Floats, first: int = 0) -> None:
    """Refuse values, steps x simulators, of which one is none; ``first`` is the number of the first simulator."""
    if not np.isfinite(array).all():
        _, simulator = np.argwhere(~np.isfinite(array))[0][:2]
        raise BadSimulatorValue(f"simulator {first + simulator} gave {what}")
