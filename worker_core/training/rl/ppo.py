"""PPO (Schulman et al. 2017, arXiv:1707.06347), from top to bottom in the order of the paper.

One update is: collect a rollout of T steps in each of S simulators with the present policy; judge it with the critic;
estimate advantages; improve the policy with K passes of minibatches over the clipped objective. Names follow the paper
where it has them: r_t(θ) is ``ratio``, Â_t ``advantages``, ε ``clip_range``, γ ``gamma``, λ ``gae_lambda``.

Two things are done once after the rollout instead of at each step, with the same numbers: values V(s) and log π(a|s).

Simulators and minibatches are cut into shards. A process owns one shard or several; all processes run this same code
and meet where one needs what the others made. What is drawn and summed depends on the shards alone, so the numbers
are the same, to the last bit, whether one process owns all shards or each has its own.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.board import Board, Rollout
from worker_core.training.rl.descent import Batch, Descent, Figures
from worker_core.training.rl.joint import Joint
from worker_core.training.rl.moments import RewardScale, RunningMoments, discount
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.simulators import BadSimulatorValue, CutOff, Simulators
from worker_core.training.rl.spaces import Floats
from worker_core.wire.spec import Ppo

Stats = dict[str, float]
Parts = list[list[tuple[int, int]]]
"""For each minibatch, where the rows of each shard begin and end."""
_NOISE, _ORDER = 2, 3
"""What a generator is for, beside its seed; 0 and 1 are the trainer's own and the simulators'."""


class Meeting(Protocol):
    """Where processes wait for each other."""

    def meet(self) -> None:
        """Return when all processes have come here."""
        ...


class Alone:
    """A meeting of one."""

    def meet(self) -> None:
        """Nobody is waited for."""


class PpoLearner:
    """The learning half: holds the policy, what descends its loss, and the running statistics."""

    def __init__(self, policy: Policy, joint: Joint, descent: Descent, settings: Ppo) -> None:
        self.policy = policy
        self.joint = joint
        self.descent = descent
        self.settings = settings
        size = policy.actor[0][0].shape[1]
        self.observed = RunningMoments(size) if settings.normalize_observation else None
        self.reward_scale = RewardScale() if settings.normalize_reward else None
        self.passes = 0
        """Passes over a rollout so far; SB3 calls them n_updates."""
        self._acting: dict[int, Floats] = {}

    def choose(self, observations: Floats, noise: Floats | None) -> NDArray[Any]:
        """Return the actions for observations, each a column: sampled with ``noise``, greedy without."""
        inputs = self._acting.get(observations.shape[1])
        if inputs is None:
            inputs = self._acting[observations.shape[1]] = np.ones(
                (observations.shape[0] + 1, observations.shape[1]), np.float32
            )
        self.normalise(observations, inputs[:-1])
        outputs = self.joint.act(inputs)
        log_std = self.joint.weights.log_std
        if noise is not None and log_std is not None:
            noise = noise * np.exp(log_std)[:, None]
        return self.policy.actions.choose(outputs, noise)

    def normalise(self, observations: Floats, out: Floats) -> None:
        """Write observations as the policy sees them; the statistics stand still within a rollout."""
        if self.observed is None:
            out[...] = observations
        else:
            self.observed.normalise(observations, out)


class PpoWorker:
    """One process's part in the training: its shards of the simulators, and of every minibatch."""

    def __init__(
        self, learner: PpoLearner, board: Board, shards: dict[int, Simulators], meeting: Meeting, seed: int
    ) -> None:
        self.learner = learner
        self.meeting = meeting
        self.seed = seed
        self.running: dict[int, NDArray[np.float64]] = {
            number: np.zeros(simulators.count) for number, simulators in shards.items()
        }
        """The discounted return so far of each simulator."""
        self._board = board
        self._shards = shards
        self._parity = 0
        self._divided: dict[tuple[int, int, tuple[int, ...]], tuple[NDArray[np.int64], Parts]] = {}

    # 1. Collect: run π_old for T steps in every simulator.

    def collect(self, update: int, steps: int, tick: Callable[[int], None]) -> None:
        """Play ``steps`` steps in the own simulators, and judge them; ``tick`` hears of each step."""
        learner = self.learner
        normalised = learner.observed is not None
        rollout = self._board.rollout(steps, normalised=normalised)
        cut_offs: dict[int, list[CutOff]] = {}
        for number, simulators in self._shards.items():
            cut_offs[number] = self._play(number, simulators, rollout, update, tick)
        if normalised or learner.reward_scale is not None:
            self.meeting.meet()
        if learner.reward_scale is not None:
            learner.reward_scale.take_in(rollout.discounted)
        for number, simulators in self._shards.items():
            self._judge(rollout, simulators, cut_offs[number])
        if learner.observed is not None:
            learner.observed.take_in(rollout.raw)
        self.meeting.meet()

    def _play(
        self, number: int, simulators: Simulators, rollout: Rollout, update: int, tick: Callable[[int], None]
    ) -> list[CutOff]:
        learner, current, mine = self.learner, simulators.current, slice(simulators.first, simulators.end)
        all_of = rollout.rewards.shape[1]
        drawn = generator(self.seed, _NOISE, number, update)
        noise = learner.policy.actions.noise(drawn, rollout.steps, simulators.count)
        rewards, ends = rollout.rewards[:, mine], rollout.ends[:, mine]
        ends[:] = 0.0
        for t in range(rollout.steps):
            columns = slice(t * all_of + simulators.first, t * all_of + simulators.end)
            rollout.raw[:, columns] = current
            rollout.chosen[:, columns] = chosen = learner.choose(current, noise[t])
            simulators.step(t, chosen, rewards[t], ends[t])
            tick(t)
        cut_offs = simulators.take_cut_offs()
        _refuse_non_finite(rollout, simulators, cut_offs)
        if learner.reward_scale is not None:
            discount(rewards, ends, self.running[number], learner.settings.gamma, rollout.discounted[:, mine])
        return cut_offs

    # 2. Judge and estimate: V(s), log π_old(a|s), and the advantage of each action (GAE, arXiv:1506.02438).

    def _judge(self, rollout: Rollout, simulators: Simulators, cut_offs: list[CutOff]) -> None:
        learner, settings = self.learner, self.learner.settings
        first, end = simulators.first, simulators.end
        inputs = _columns(rollout.inputs, rollout, first, end)
        if learner.observed is not None:
            learner.normalise(_columns(rollout.raw, rollout, first, end), inputs[:-1])
            _table(rollout.inputs, rollout)[:, :, first:end] = inputs.reshape(len(inputs), rollout.steps, -1)
        chosen = _columns(rollout.chosen, rollout, first, end)
        values = learner.descent.values(inputs).reshape(rollout.steps, -1)
        rewards = rollout.rewards[:, first:end]
        if learner.reward_scale is not None:
            rewards = learner.reward_scale.scale(rewards)
        if cut_offs:
            # An episode that was only cut off goes on in the critic's eyes; one that terminated does not.
            rewards = rewards.copy()
            beyond = self._values_of(np.stack([cut.observation for cut in cut_offs], axis=1))
            for cut, value in zip(cut_offs, beyond, strict=True):
                rewards[cut.step, cut.simulator] += settings.gamma * value
        last = self._values_of(simulators.current)
        advantages = gae(rewards, values, rollout.ends[:, first:end], last, settings.gamma, settings.gae_lambda)
        rollout.values[:, first:end] = values
        rollout.old[:, first:end] = learner.descent.log_probability(inputs, chosen).reshape(rollout.steps, -1)
        rollout.advantages[:, first:end] = advantages
        rollout.returns[:, first:end] = advantages + values

    def _values_of(self, observations: Floats) -> Floats:
        inputs = np.ones((observations.shape[0] + 1, observations.shape[1]), np.float32)
        self.learner.normalise(observations, inputs[:-1])
        return self.learner.descent.values(inputs)

    # 3. Improve: K passes over the rollout in minibatches.

    def learn(
        self, update: int, steps: int, learning_rate: float, tick: Callable[[], None], shards: Sequence[int] = ()
    ) -> Stats:
        """Improve the policy with the rollout and return the figures of this update; ``tick`` hears of each step.

        ``shards`` are those to work on where another process lets us do its part; its own are used otherwise.
        """
        learner, settings = self.learner, self.learner.settings
        rollout = self._board.rollout(steps, normalised=learner.observed is not None)
        count = rollout.rewards.size
        rows = Batch(
            rollout.inputs, rollout.chosen, *(c.ravel() for c in (rollout.old, rollout.advantages, rollout.returns))
        )
        # All processes have met since the last minibatch, and they may not all have learned from that rollout.
        self._parity = 0
        order_of = generator(self.seed, _ORDER, update)
        figures: list[Figures] = []
        for number in range(settings.n_epochs):
            order = order_of.permutation(count)
            told = number == settings.n_epochs - 1
            figures += self._pass(rows, order, learning_rate, told, tick, shards or tuple(self._shards))
        learner.descent.finish()
        learner.passes += settings.n_epochs
        return self._stats(figures, learning_rate, rollout)

    def _pass(
        self,
        rows: Batch,
        order: NDArray[np.int64],
        learning_rate: float,
        told: bool,
        tick: Callable[[], None],
        shards: Sequence[int],
    ) -> list[Figures]:
        """Go once over the rows in minibatches within each of which advantages are normalised."""
        learner, size, shape = self.learner, self.learner.settings.minibatch_size, self._board.shape
        descent = learner.descent
        advantages = normalised_in_groups(rows.advantages[order], size)
        mine, parts = self._own_order(len(order), size, shards)
        picked = order[mine]
        loaded = descent.load(
            Batch(
                np.take(rows.inputs, picked, axis=1),
                np.take(rows.chosen, picked, axis=1),
                rows.old[picked],
                advantages[mine],
                rows.returns[picked],
            )
        )
        figures: list[Figures] = []
        for number, start in enumerate(range(0, len(order), size)):
            slots, count = self._board.slots[self._parity], min(size, len(order) - start)
            self._parity = 1 - self._parity
            for shard, (begin, end) in zip(shards, parts[number], strict=True):
                if end > begin:
                    descent.differentiate(loaded.part(begin, end), count, slots[shard], told=told)
                else:
                    slots[shard] = 0.0
            self.meeting.meet()
            step = descent.descend(slots[: shape.shards], count, learning_rate, told=told)
            tick()
            if step is not None:
                figures.append(step)
        return figures

    def _own_order(self, count: int, size: int, shards: Sequence[int]) -> tuple[NDArray[np.int64], "Parts"]:
        """Return which places of a shuffled rollout are ours, and where each shard's part of each minibatch lies."""
        key = (count, size, tuple(shards))
        if key in self._divided:
            return self._divided[key]
        places: list[NDArray[np.int64]] = []
        parts: Parts = []
        at = 0
        for start in range(0, count, size):
            rows = min(size, count - start)
            parts.append([])
            for shard in shards:
                begin, end = self._board.shape.bounds(rows, shard)
                places.append(np.arange(start + begin, start + end))
                parts[-1].append((at, at + end - begin))
                at += end - begin
        self._divided[key] = np.concatenate(places), parts
        return self._divided[key]

    def _stats(self, figures: list[Figures], learning_rate: float, rollout: Rollout) -> Stats:
        means = Figures(*np.mean(figures, axis=0).tolist())
        spread = float(rollout.returns.var())
        unexplained = float((rollout.returns - rollout.values).var())
        return {
            "train/loss": means.loss,
            "train/policy_gradient_loss": means.policy_loss,
            "train/value_loss": means.value_loss,
            "train/entropy_loss": -means.entropy,
            "train/approx_kl": means.approx_kl,
            "train/clip_fraction": means.clip_fraction,
            "train/grad_norm": means.grad_norm,
            "train/explained_variance": float("nan") if spread == 0 else 1 - unexplained / spread,
            "train/learning_rate": learning_rate,
            "train/n_updates": float(self.learner.passes),
        }


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """Return a generator that is a function of what it is for: nothing of it needs to be saved."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=purpose)))


def gae(rewards: Floats, values: Floats, ends: Floats, last_values: Floats, gamma: float, gae_lambda: float) -> Floats:
    """Return generalised advantage estimates: Â_t = δ_t + γλ Â_{t+1}, where δ_t = r_t + γ V(s_{t+1}) - V(s_t)."""
    alive = 1 - ends
    following = np.concatenate((values[1:], last_values[None]))
    deltas = rewards + np.float32(gamma) * following * alive - values
    decay = np.float32(gamma * gae_lambda) * alive
    advantages = np.empty(deltas.shape, np.float32)
    running = np.zeros(last_values.shape, np.float32)
    for t in range(len(deltas) - 1, -1, -1):
        running = np.multiply(decay[t], running, out=advantages[t])
        running += deltas[t]
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


def _table(array: NDArray[Any], rollout: Rollout) -> NDArray[Any]:
    """Return features x columns as features x steps x simulators."""
    return array.reshape(len(array), rollout.steps, -1)


def _columns(array: NDArray[Any], rollout: Rollout, first: int, end: int) -> NDArray[Any]:
    """Return the columns of some simulators, as an array of their own where they are not all."""
    return _table(array, rollout)[:, :, first:end].reshape(len(array), -1)


def _refuse_non_finite(rollout: Rollout, simulators: Simulators, cut_offs: list[CutOff]) -> None:
    """Refuse values that are no numbers, and name the simulator that gave them."""
    first, end = simulators.first, simulators.end
    seen = _table(rollout.raw, rollout)[:, :, first:end]
    for what, array in (
        ("an observation", seen),
        ("an observation", simulators.current),
        ("a reward", rollout.rewards[:, first:end]),
    ):
        if not np.isfinite(array).all():
            raise BadSimulatorValue(f"simulator {first + int(np.argwhere(~np.isfinite(array))[0][-1])} gave {what}")
    for cut in cut_offs:
        if not np.isfinite(cut.observation).all():
            raise BadSimulatorValue(f"simulator {first + cut.simulator} gave an observation")
