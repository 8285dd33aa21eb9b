"""The works of the race: the same PPO, with the same settings, for every contender. Needs gymnasium and numpy only."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np


@dataclass(frozen=True)
class Work:
    """One simulator and how PPO is set for it.

    What all share: 128 steps a rollout, gamma 0.99, lambda 0.95, clip 0.2, value coefficient 0.5, no entropy bonus,
    gradient clip 0.5, Adam with epsilon 1e-5, a learning rate that falls to 0, and two networks of 2 x 64 tanh.
    """

    entry: str
    burn: int
    simulators: int
    minibatch: int
    epochs: int
    learning_rate: float
    normalised: bool
    steps: int
    quick_steps: int


ROLLOUT = 128
WORKS = {
    "W1": Work("CartPole-v1", 0, 8, 256, 4, 1e-3, normalised=False, steps=307_200, quick_steps=102_400),
    "W2": Work("", 750, 16, 256, 4, 1e-3, normalised=False, steps=204_800, quick_steps=40_960),
    "W2ms": Work("", 15_000, 16, 256, 4, 1e-3, normalised=False, steps=40_960, quick_steps=6_144),
    "W3": Work("HalfCheetah-v5", 0, 16, 64, 10, 3e-4, normalised=True, steps=102_400, quick_steps=40_960),
}
_TABLE, _EPISODE = 4096, 100


class BusySimulator(gymnasium.Env[Any, Any]):
    """Rewards the action that a fixed linear map of the observation names; each step costs a fixed amount of work.

    Work, not time: a simulator that waits for the clock would get its waiting for nothing while it is descheduled.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (16,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, burn: int, number: int = 0) -> None:
        rng = np.random.default_rng(number)
        self._shown = rng.standard_normal((_TABLE, 16)).astype(np.float32)
        best = (self._shown @ np.random.default_rng(7).standard_normal((16, 4))).argmax(axis=1)
        self._best: list[int] = best.tolist()
        self._burn = burn
        self._state, self._row, self._at = number + 1, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._state = seed & 0x7FFFFFFF
        self._at, self._row = 0, self._state % _TABLE
        return self._shown[self._row], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = 1.0 if action == self._best[self._row] else 0.0
        state = self._state
        for _ in range(self._burn):
            state = (state * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        self._state, self._row = state, (state >> 8) % _TABLE
        self._at += 1
        return self._shown[self._row], reward, False, self._at >= _EPISODE, {}


def make(work: Work, number: int = 0) -> Any:
    """Return one simulator of a work."""
    if work.entry:
        return gymnasium.make(work.entry)
    return BusySimulator(work.burn, number)
