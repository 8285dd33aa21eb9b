"""PPO's arithmetic on cases small enough to work out by hand."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from worker_core.training.rl.benchmark import Player
from worker_core.training.rl.board import Board, Rollout, Shape
from worker_core.training.rl.descent import NumpyDescent
from worker_core.training.rl.joint import Joint
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.ppo import Alone, PpoLearner, PpoWorker, gae, normalised_in_groups
from worker_core.training.rl.simulators import BadSimulatorValue, Simulators
from worker_core.training.rl.spaces import Observations, read_actions
from worker_core.wire.spec import Ppo


class Corridor(gymnasium.Env[Any, Any]):
    """Every step earns 1; the task ends after ``ends_after`` steps, or never."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, ends_after: int | None = None, reward: float = 1.0) -> None:
        self.ends_after, self.reward, self.at = ends_after, reward, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        return np.ones(1, np.float32), self.reward, self.at == self.ends_after, False, {}


class Shifting(gymnasium.Env[Any, Any]):
    """Shows 5, 6, 7 and so on."""

    observation_space = spaces.Box(-1000, 1000, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.shown = 5.0
        return np.array([self.shown], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.shown += 1
        return np.array([self.shown], np.float32), 1.0, False, False, {}


def worker_on(env: Any, settings: Ppo, count: int = 1, fragment: int = 64) -> PpoWorker:
    observations, actions = Observations(env().observation_space), read_actions(env().action_space)
    policy = Policy(observations.size, actions, settings.hidden)
    policy.initialise(np.random.default_rng(0))
    joint = Joint(policy)
    simulators = Simulators(env, count, observations, actions)
    simulators.start(list(range(count)))
    descent = NumpyDescent(policy, joint, settings)
    board = Board(Shape.of(policy, len(joint.flat), count, 1, fragment, descent.slot))
    return PpoWorker(PpoLearner(policy, joint, descent, settings), board, {0: simulators}, Alone(), seed=0)


def collect(worker: PpoWorker, update: int, steps: int) -> Rollout:
    worker.collect(update, steps, lambda _row: None)
    return worker._board.rollout(steps, normalised=worker.learner.observed is not None)


def value_learned(env: Any) -> float:
    """Return what the critic thinks of the only state there is."""
    settings = Ppo(gamma=0.9, gae_lambda=1.0, learning_rate=2e-2, n_epochs=20, hidden=(8,), max_grad_norm=10)
    worker = worker_on(env, settings)
    for update in range(25):
        collect(worker, update, 64)
        worker.learn(update, 64, 2e-2, lambda: None)
    return float(worker.learner.descent.values(np.ones((2, 1), np.float32))[0])


def test_an_episode_that_is_cut_off_is_worth_as_much_as_one_that_goes_on() -> None:
    assert value_learned(lambda: TimeLimit(Corridor(), 5)) == pytest.approx(10.0, rel=0.1)  # 1 / (1 - 0.9)


def test_an_episode_that_terminates_earns_nothing_more() -> None:
    assert value_learned(lambda: Corridor(ends_after=1)) == pytest.approx(1.0, abs=0.1)


def test_advantages_are_discounted_sums_of_errors() -> None:
    rewards, values = np.array([[1.0], [2.0], [3.0]], np.float32), np.array([[0.5], [0.25], [1.0]], np.float32)
    ends, last = np.zeros((3, 1), np.float32), np.array([2.0], np.float32)
    deltas = [1 + 0.9 * 0.25 - 0.5, 2 + 0.9 * 1.0 - 0.25, 3 + 0.9 * 2.0 - 1.0]
    expected = [deltas[0] + 0.72 * (deltas[1] + 0.72 * deltas[2]), deltas[1] + 0.72 * deltas[2], deltas[2]]
    assert np.allclose(gae(rewards, values, ends, last, 0.9, 0.8)[:, 0], expected)


def test_nothing_flows_back_over_the_end_of_an_episode() -> None:
    rewards, ends = np.array([[0.0], [100.0]], np.float32), np.array([[1.0], [0.0]], np.float32)
    assert gae(rewards, np.zeros((2, 1), np.float32), ends, np.zeros(1, np.float32), 0.99, 0.95)[0, 0] == 0


def test_advantages_are_normalised_within_each_minibatch_and_a_single_one_stays() -> None:
    groups = normalised_in_groups(np.arange(9, dtype=np.float32) ** 2, 4)
    assert np.allclose([groups[:4].mean(), groups[4:8].mean()], 0, atol=1e-6)
    assert np.allclose([groups[:4].std(ddof=1), groups[4:8].std(ddof=1)], 1)
    assert groups[8] == 64


def test_the_statistics_of_normalisation_stand_still_in_a_rollout_and_while_a_benchmark_plays() -> None:
    settings = Ppo(hidden=(4,), normalize_observation=True, normalize_reward=True)
    worker = worker_on(Shifting, settings, fragment=8)
    learner = worker.learner
    first = collect(worker, 0, 8)
    assert first.inputs[0].tolist() == pytest.approx([5, 6, 7, 8, 9, 10, 10, 10])  # cut at 10, not scaled
    assert learner.observed is not None
    assert learner.observed.count == 8
    assert learner.observed.mean[0] == pytest.approx(8.5)
    before = {name: array.copy() for name, array in learner.observed.arrays("observed").items()}
    observations = Observations(Shifting.observation_space)
    player = Player(lambda: TimeLimit(Shifting(), 20), observations, learner.policy.actions, learner.choose)
    player.play([1, 2], greedy=True, tick=lambda _share: None)
    assert all(np.array_equal(before[name], array) for name, array in learner.observed.arrays("observed").items())
    second = collect(worker, 1, 1)
    assert second.inputs[0, 0] == pytest.approx((13 - 8.5) / np.std(range(8)))


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_every_row_of_a_rollout_is_learned_from_once_in_a_pass(shards: int) -> None:
    worker = worker_on(Corridor, Ppo(hidden=(4,)), count=3)
    worker._board.shape = dataclasses.replace(worker._board.shape, shards=shards)
    seen: list[int] = []
    for shard in range(shards):
        places, parts = worker._own_order(30, 7, [shard])
        seen += places.tolist()
        assert sum(end - begin for minibatch in parts for begin, end in minibatch) == len(places)
    assert sorted(seen) == list(range(30))


def test_a_reward_that_is_no_number_ends_training_and_names_the_simulator() -> None:
    worker = worker_on(lambda: Corridor(reward=float("nan")), Ppo(hidden=(4,)), count=2)
    with pytest.raises(BadSimulatorValue, match="simulator 0 gave a reward"):
        collect(worker, 0, 3)


def test_figures_carry_the_names_that_people_know() -> None:
    worker = worker_on(Corridor, Ppo(hidden=(4,)))
    collect(worker, 0, 16)
    stats = worker.learn(0, 16, 1e-3, lambda: None)
    names = "loss policy_gradient_loss value_loss entropy_loss approx_kl clip_fraction explained_variance learning_rate"
    assert set(stats) == {f"train/{name}" for name in (*names.split(), "n_updates", "grad_norm")}
    assert stats["train/n_updates"] == 10
    assert stats["train/entropy_loss"] == pytest.approx(-np.log(2), abs=1e-2)
