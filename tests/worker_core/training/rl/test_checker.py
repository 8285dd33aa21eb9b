"""The checker: each fault of a simulator is named with what to do."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from worker_core.training.rl.checker import UnfitSimulator, check_simulator

ZERO = np.zeros(2, np.float32)


class Good(gymnasium.Env[Any, Any]):
    """A simulator without faults; each test changes one thing."""

    def __init__(self, **changes: Any) -> None:
        self.observation_space = changes.get("observations", spaces.Box(-1, 1, (2,), np.float32))
        self.action_space = changes.get("actions", spaces.Discrete(2))
        self._first = changes.get("first", (ZERO, {}))
        self._answer = changes.get("answer", (ZERO, 1.0, False, False, {}))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._first

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._answer


def faults_of(**changes: Any) -> str:
    with pytest.raises(UnfitSimulator) as refused:
        check_simulator("mine:Env", lambda: TimeLimit(Good(**changes), 10))
    return str(refused.value)


def test_a_good_simulator_passes() -> None:
    assert check_simulator("mine:Env", Good) == []


@pytest.mark.parametrize("name", ["CartPole-v1", "LunarLander-v3", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1"])
def test_registered_simulators_pass(name: str) -> None:
    assert check_simulator(name, lambda: gymnasium.make(name, disable_env_checker=True)) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"answer": (ZERO, 1.0, False, {})}, "the API of old gym; it must return 5"),
        ({"answer": (ZERO, 1.0)}, "a tuple of 2; it must return (observation, reward, terminated, truncated, info)"),
        ({"answer": None}, "step() returned None"),
        ({"answer": (np.zeros(3, np.float32), 1.0, False, False, {})}, "shape (3,); observation_space says (2,)"),
        ({"answer": (np.array([np.nan, 0]), 1.0, False, False, {})}, "not finite"),
        ({"answer": (np.array(["a", "b"]), 1.0, False, False, {})}, "it must be numbers"),
        ({"answer": (ZERO, "1", False, False, {})}, "as reward; it must be one number"),
        ({"answer": (ZERO, np.zeros(2), False, False, {})}, "as reward; it must be one number"),
        ({"answer": (ZERO, float("nan"), False, False, {})}, "it must be finite"),
        ({"answer": (ZERO, 1.0, 1, False, {})}, "as terminated; it must be True or False"),
        ({"answer": (ZERO, 1.0, False, None, {})}, "as truncated; it must be True or False"),
        ({"answer": (ZERO, 1.0, False, False, None)}, "as info; it must be a dict"),
        ({"first": ZERO}, "it must return (observation, info)"),
        ({"first": (ZERO, None)}, "as info; it must be a dict"),
        ({"first": (np.zeros(1), {})}, "reset() returned an observation of shape (1,)"),
        ({"observations": None}, "self.observation_space is not set"),
        ({"actions": spaces.Text(3)}, "the action space is"),
        ({"actions": spaces.Box(0, 9, (2,), np.int64)}, "Box of float numbers"),
        ({"observations": spaces.Text(3)}, "the observation space is"),
        ({"observations": spaces.Box(0, 255, (400, 400, 3), np.uint8)}, "480,000 numbers"),
    ],
)
def test_a_fault_is_named(changes: dict[str, Any], told: str) -> None:
    message = faults_of(**changes)
    assert told in message
    assert message.startswith("the simulator mine:Env cannot be trained on:\n- ")


def test_a_reset_without_seed_is_explained() -> None:
    class NoSeed(Good):
        def reset(self) -> tuple[Any, dict[str, Any]]:  # type: ignore[override] # pyright: ignore
            return ZERO, {}

    with pytest.raises(UnfitSimulator, match="def reset"):
        check_simulator("mine:Env", NoSeed)


def test_a_simulator_that_ignores_its_seed_is_warned_about() -> None:
    class Moody(Good):
        def reset(self, **_unused: Any) -> tuple[Any, dict[str, Any]]:
            return np.random.default_rng().uniform(size=2).astype(np.float32), {}

    assert "same seed" in check_simulator("mine:Env", Moody)[0]


def test_an_observation_out_of_bounds_is_warned_about_once() -> None:
    warnings = check_simulator("mine:Env", lambda: Good(answer=(ZERO + 5, 1.0, False, False, {})))
    assert len(warnings) == 1
    assert "outside the bounds" in warnings[0]
