"""Simulators in mid-episode: restored exactly, or begun again and said so."""

import json
import random
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from worker_core.training.rl.simulators import Simulators
from worker_core.training.rl.spaces import Observations, read_actions
from worker_core.wire.spec import Restart


def simulators_of(make: Any, count: int = 3) -> Simulators:
    probe = make()
    return Simulators(make, count, Observations(probe.observation_space), read_actions(probe.action_space))


def play(simulators: Simulators, steps: int, rng: np.random.Generator) -> list[Any]:
    """Step with random actions and return all that was seen."""
    seen: list[Any] = []
    for row in range(steps):
        rewards, ends = np.zeros(simulators.count, np.float32), np.zeros(simulators.count, np.float32)
        simulators.step(row, random_actions(simulators, rng), rewards, ends)
        seen.append((simulators.current.copy(), rewards, ends))
    return seen


def random_actions(simulators: Simulators, rng: np.random.Generator) -> Any:
    actions = simulators._actions
    outputs = np.zeros((actions.outputs, simulators.count), np.float32)
    return actions.choose(outputs, actions.noise(rng, 1, simulators.count)[0])


@pytest.mark.parametrize(
    "name", ["CartPole-v1", "LunarLander-v3", "Pendulum-v1", "Acrobot-v1", "LunarLanderContinuous-v3"]
)
@pytest.mark.parametrize("cut", [1, 37, 230])
def test_a_simulator_in_mid_episode_goes_on_as_if_nothing_had_happened(name: str, cut: int) -> None:
    first, second = (simulators_of(lambda: gymnasium.make(name, disable_env_checker=True)) for _ in range(2))
    first.start([1, 2, 3])
    play(first, cut, np.random.default_rng(0))
    states, arrays = first.snapshot()
    inexact = second.restore(json.loads(json.dumps(states)), arrays, [7, 8, 9])
    assert inexact == []
    straight, resumed = (play(one, 120, np.random.default_rng(5)) for one in (first, second))
    for one, other in zip(straight, resumed, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    first.close()
    second.close()


class Moody(gymnasium.Env[Any, Any]):
    """Draws from a generator that nobody can restore."""

    observation_space = spaces.Box(-9, 9, (1,), np.float64)
    action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.array([random.random()]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array([random.random()]), 0.0, False, False, {}


class Scaling(gymnasium.Env[Any, Any]):
    """Changes the action that it was given."""

    observation_space = spaces.Box(-99, 99, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0.0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action *= 2
        self.at += float(action[0])
        return np.array([self.at], np.float32), 0.0, False, False, {}


def test_a_simulator_that_changes_the_action_it_was_given_is_replayed_with_the_one_that_was_given() -> None:
    first, second, third = (simulators_of(Scaling, 2) for _ in range(3))
    first.start([1, 2])
    play(first, 5, np.random.default_rng(0))
    assert second.restore(*first.snapshot(), [5, 6]) == []
    assert third.restore(*second.snapshot(), [5, 6]) == []
    assert np.array_equal(third.current, first.current)


def test_a_simulator_that_does_not_replay_starts_a_new_episode_and_is_named() -> None:
    first, second = simulators_of(Moody, 2), simulators_of(Moody, 2)
    first.start([1, 2])
    play(first, 3, np.random.default_rng(0))
    states, arrays = first.snapshot()
    assert second.restore(states, arrays, [5, 6]) == [0, 1]
    play(second, 1, np.random.default_rng(0))
    assert [len(taken) for taken in second._taken] == [1, 1]


def test_episodes_are_counted_and_a_truncated_one_shows_what_came_next() -> None:
    simulators = simulators_of(lambda: gymnasium.make("Pendulum-v1", max_episode_steps=4, disable_env_checker=True), 1)
    simulators.start([1])
    seen = play(simulators, 9, np.random.default_rng(0))
    ended = simulators.take_ended()
    assert [(end.length, end.row) for end in ended] == [(4, 3), (4, 7)]
    assert ended[0].total == pytest.approx(sum(float(rewards[0]) for _, rewards, _ in seen[:4]), rel=1e-5)
    cut_offs = simulators.take_cut_offs()
    assert [(cut.step, cut.simulator) for cut in cut_offs] == [(3, 0), (7, 0)]
    assert not np.array_equal(cut_offs[0].observation, seen[3][0][:, 0])
    assert simulators.take_cut_offs() == []
    simulators.close()


class Shaky(gymnasium.Env[Any, Any]):
    """Fails at every seventh step of each that is made."""

    observation_space = spaces.Box(-9, 9, (1,), np.float32)
    action_space = spaces.Discrete(2)
    made = 0
    closed = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.at = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.random(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        if self.at == 7:
            raise RuntimeError("the pump is dry")
        return self.np_random.random(1, np.float32), 1.0, False, False, {}

    def close(self) -> None:
        type(self).closed += 1


def shaky(restart: Restart) -> Simulators:
    space = Shaky()
    simulators = Simulators(
        Shaky, 2, Observations(space.observation_space), read_actions(space.action_space), restart=restart
    )
    simulators.start([1, 2])
    return simulators


def test_a_simulator_that_fails_is_made_anew_and_its_episode_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    Shaky.closed = 0
    simulators = shaky(Restart(lifetime=2, per_minute=60))
    seen = play(simulators, 10, np.random.default_rng(0))
    assert [rewards.tolist() for _, rewards, _ in seen[5:8]] == [[1, 1], [0, 0], [1, 1]]
    assert [ends.tolist() for _, _, ends in seen[5:8]] == [[0, 0], [1, 1], [0, 0]]
    cut_offs = simulators.take_cut_offs()
    assert [(cut.step, cut.simulator) for cut in cut_offs] == [(6, 0), (6, 1)]
    assert cut_offs[0].observation == seen[5][0][:, 0]
    assert simulators.take_ended() == []  # how such an episode would have gone says nothing about the policy
    assert (simulators.restarts, Shaky.closed) == ([1, 1], 2)
    said = capsys.readouterr().err
    assert "the pump is dry" in said
    assert "simulator 1 failed and is made anew (1 of 2 times)" in said


class Stuck(Shaky):
    """Ends an episode with a reward of 10, and fails to begin another; one that is new begins."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self.at:
            raise RuntimeError("the valve is stuck")
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        return np.zeros(1, np.float32), 10.0, True, False, {}


def test_what_the_last_step_of_an_episode_earned_stays_where_the_next_episode_fails_to_begin() -> None:
    probe = Stuck()
    spaces_of = Observations(probe.observation_space), read_actions(probe.action_space)
    simulators = Simulators(Stuck, 2, *spaces_of, restart=Restart(lifetime=9, per_minute=60))
    simulators.start([1, 2])
    (_, rewards, ends), *_ = play(simulators, 1, np.random.default_rng(0))
    assert (rewards.tolist(), ends.tolist()) == ([10, 10], [1, 1])
    assert [end.total for end in simulators.take_ended()] == [10, 10]
    assert simulators.take_cut_offs() == []


@pytest.mark.parametrize("restart", [Restart(lifetime=1, per_minute=60), Restart(lifetime=9, per_minute=1)])
def test_a_simulator_that_fails_too_often_ends_training_with_its_own_error(restart: Restart) -> None:
    simulators = shaky(restart)
    with pytest.raises(RuntimeError, match="the pump is dry") as raised:
        play(simulators, 20, np.random.default_rng(0))
    assert "made anew 1 times before" in raised.value.__notes__[0]


def test_a_simulator_made_anew_goes_on_exactly_after_a_resume() -> None:
    first, second = (shaky(Restart(lifetime=9, per_minute=60)) for _ in range(2))
    play(first, 9, np.random.default_rng(0))
    states, arrays = first.snapshot()
    assert second.restore(json.loads(json.dumps(states)), arrays, [7, 8]) == []
    assert second.restarts == [1, 1]
    straight, resumed = (play(one, 12, np.random.default_rng(5)) for one in (first, second))
    for one, other in zip(straight, resumed, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
