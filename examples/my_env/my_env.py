"""A simulator of one's own: a room to be kept at the wanted temperature with a heater.

It is an ordinary Gymnasium environment. Three habits make it train well and resume exactly:
random numbers come from ``self.np_random``, ``terminated`` is kept for the task's own end, and everything that the
next step depends on is set in ``reset``.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Observation = NDArray[np.float32]


class Room(gymnasium.Env[Observation, Observation]):
    """See the distance to the wanted temperature and the weather; choose the heater's power, -1 (off) to 1 (full)."""

    def __init__(self, wanted: float = 21.0, leak: float = 0.05) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._wanted = wanted
        self._leak = leak
        self._inside = wanted
        self._outside = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._inside = self._wanted + self.np_random.uniform(-8.0, 8.0)
        self._outside = self.np_random.uniform(-10.0, 10.0)
        return self._observe(), {}

    def step(self, action: Observation) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        power = (float(action[0]) + 1) / 2
        self._outside += self.np_random.normal(0.0, 0.1)
        self._inside += 2.5 * power - self._leak * (self._inside - self._outside)
        distance = abs(self._inside - self._wanted)
        frozen = self._inside < 0
        reward = 1.0 - distance / 5.0 - (10.0 if frozen else 0.0)
        return self._observe(), reward, frozen, False, {"is_success": distance < 1.0}

    def _observe(self) -> Observation:
        return np.array([(self._inside - self._wanted) / 5.0, self._outside / 10.0], np.float32)
