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
import torch
from numpy.typing import NDArray
from torch import Tensor

from worker_core.training.rl.moments import RewardScale, RunningMoments
from worker_core.training.rl.policy import ActorCritic
from worker_core.training.rl.simulators import CutOff, Simulators
from worker_core.training.rl.spaces import Floats
from worker_core.wire.spec import Ppo

ADAM_EPSILON = 1e-5
_ROWS_AT_ONCE = 32_768

Stats = dict[str, float]


class BadSimulatorValue(ValueError):
    """A simulator gave a number that is none, so nothing can be learned from it."""


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
    """The learning half: holds the policy, its optimiser and the running statistics."""

    def __init__(self, policy: ActorCritic, settings: Ppo, observation_size: int, simulators: int) -> None:
        self.policy = policy
        self.settings = settings
        self.observed = RunningMoments(observation_size) if settings.normalize_observation else None
        self.reward_scale = RewardScale(simulators, settings.gamma) if settings.normalize_reward else None
        self.optimiser = torch.optim.Adam([policy.flat], lr=settings.learning_rate, eps=ADAM_EPSILON, fused=True)
        self.updates = 0

    # 1. Collect: run π_old for T steps in every simulator.

    def collect(
        self, simulators: Simulators, steps: int, rng: np.random.Generator, tick: Callable[[int], None]
    ) -> Rollout:
        """Return a rollout of ``steps`` steps; ``tick`` hears of each of them."""
        acting, actions = self.policy.acting(), self.policy.actions
        noise = actions.noise(rng, steps, simulators.count)
        seen = np.empty((steps, *simulators.current.shape), np.float32)
        chosen = np.empty((steps, simulators.count, actions.columns), np.float32 if actions.continuous else np.int64)
        rewards = np.zeros((steps, simulators.count), np.float32)
        ends = np.zeros_like(rewards)
        for t in range(steps):
            seen[t] = simulators.current
            chosen[t] = acting.choose(self.normalised(simulators.current), noise[t])
            simulators.step(t, chosen[t], rewards[t], ends[t])
            tick(t)
        _refuse_non_finite(seen, rewards)
        rollout = Rollout(seen, chosen, rewards, ends, simulators.take_cut_offs(), simulators.current)
        return self._scaled(rollout)

    # 2. Judge and estimate: V(s), log π_old(a|s), and the advantage of each action (GAE, arXiv:1506.02438).

    def values(self, observations: Floats) -> Floats:
        """Return V(s) of rows the policy saw."""
        with torch.no_grad():
            parts = [self.policy.values(rows) for rows in torch.split(self._tensor(observations), _ROWS_AT_ONCE)]
            return torch.cat(parts).cpu().numpy()

    def advantages(self, rollout: Rollout, values: Floats) -> Floats:
        """Return Â_t. An episode that was only cut off goes on in the critic's eyes; one that terminated does not."""
        gamma = self.settings.gamma
        rewards = rollout.rewards.copy()
        if rollout.cut_offs:
            beyond = self.values(np.stack([cut.observation for cut in rollout.cut_offs]))
            for cut, value in zip(rollout.cut_offs, beyond, strict=True):
                rewards[cut.step, cut.simulator] += gamma * value
        return gae(rewards, values, rollout.ends, self.values(rollout.last), gamma, self.settings.gae_lambda)

    # 3. Improve: K passes over the rollout in minibatches.

    def learn(self, rollout: Rollout, learning_rate: float, rng: np.random.Generator) -> Stats:
        """Improve the policy with one rollout and return the figures of this update."""
        self.optimiser.param_groups[0]["lr"] = learning_rate
        values = self.values(_rows(rollout.observations)).reshape(rollout.rewards.shape)
        advantages = self.advantages(rollout, values)
        returns = advantages + values
        observations, chosen = self._tensor(_rows(rollout.observations)), self._tensor(_rows(rollout.chosen))
        with torch.no_grad():
            pairs = zip(torch.split(observations, _ROWS_AT_ONCE), torch.split(chosen, _ROWS_AT_ONCE), strict=True)
            old = torch.cat([self.policy.log_probability(rows, taken) for rows, taken in pairs])
        batch = (observations, chosen, old, self._tensor(advantages.ravel()), self._tensor(returns.ravel()))
        figures: list[Tensor] = []
        for epoch in range(self.settings.n_epochs):
            last = epoch == self.settings.n_epochs - 1
            for minibatch in self._minibatches(batch, rng):
                told = self._descend(*minibatch, told=last)
                if told is not None:
                    figures.append(told)
        self.updates += self.settings.n_epochs
        return self._stats(figures, learning_rate, values, returns)

    def _minibatches(self, batch: tuple[Tensor, ...], rng: np.random.Generator) -> Iterator[tuple[Tensor, ...]]:
        size = self.settings.minibatch_size
        order = self._tensor(rng.permutation(len(batch[0])))
        shuffled = [column[order] for column in batch]
        shuffled[3] = _normalised_in_groups(shuffled[3], size)
        return zip(*(torch.split(column, size) for column in shuffled), strict=True)

    def _descend(
        self, observations: Tensor, chosen: Tensor, old: Tensor, advantages: Tensor, returns: Tensor, *, told: bool
    ) -> Tensor | None:
        """Take one step of Adam down the clipped objective; ``told`` asks for the figures of this minibatch."""
        settings = self.settings
        log_probability, values, entropy = self.policy.judge(
            observations, chosen, entropy=told or settings.ent_coef > 0
        )
        log_ratio = log_probability - old
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - settings.clip_range, 1 + settings.clip_range)
        policy_loss = -torch.minimum(ratio * advantages, clipped * advantages).mean()
        value_loss = (returns - values).square().mean()
        loss = policy_loss + settings.vf_coef * value_loss
        if settings.ent_coef > 0:
            loss = loss - settings.ent_coef * entropy
        gradient = self.policy.gradient
        gradient.zero_()
        torch.autograd.backward(loss)
        norm = gradient.square().sum().sqrt()
        gradient.mul_(torch.clamp(settings.max_grad_norm / (norm + 1e-6), max=1.0))
        self.optimiser.step()  # pyright: ignore[reportUnknownMemberType]
        if not told:
            return None
        with torch.no_grad():
            kl = (ratio - 1 - log_ratio).mean()
            clip_fraction = ((ratio - 1).abs() > settings.clip_range).float().mean()
            return torch.stack((loss, policy_loss, value_loss, -entropy, kl, clip_fraction))

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

    def _stats(self, figures: list[Tensor], learning_rate: float, values: Floats, returns: Floats) -> Stats:
        means: list[float] = torch.stack(figures).mean(dim=0).tolist()  # pyright: ignore[reportUnknownMemberType]
        loss, policy_loss, value_loss, entropy_loss, kl, clip_fraction = means
        spread = float(returns.var())
        return {
            "train/loss": loss,
            "train/policy_gradient_loss": policy_loss,
            "train/value_loss": value_loss,
            "train/entropy_loss": entropy_loss,
            "train/approx_kl": kl,
            "train/clip_fraction": clip_fraction,
            "train/explained_variance": float("nan") if spread == 0 else 1 - float((returns - values).var()) / spread,
            "train/learning_rate": learning_rate,
            "train/n_updates": float(self.updates),
        }

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.policy.flat.device)  # pyright: ignore[reportUnknownMemberType]


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


def _normalised_in_groups(advantages: Tensor, size: int) -> Tensor:
    """Return advantages with mean 0 and spread 1 within each minibatch; a minibatch of one stays as it is."""
    whole = len(advantages) // size * size
    parts: list[Tensor] = []
    for groups in (advantages[:whole].view(-1, size), advantages[whole:].view(1, -1)):
        if groups.numel() and groups.shape[1] > 1:
            groups = (groups - groups.mean(dim=1, keepdim=True)) / (groups.std(dim=1, keepdim=True) + 1e-8)
        parts.append(groups.view(-1))
    return torch.cat(parts)


def _rows(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(array.shape[0] * array.shape[1], -1)


def _refuse_non_finite(observations: Floats, rewards: Floats) -> None:
    for name, array in (("an observation", observations), ("a reward", rewards)):
        if not np.isfinite(array).all():
            _, simulator = np.argwhere(~np.isfinite(array))[0][:2]
            raise BadSimulatorValue(
                f"simulator {simulator} gave {name} that is not a finite number; correct the simulator so that every "
                "value is finite"
            )
