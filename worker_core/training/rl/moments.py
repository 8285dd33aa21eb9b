"""Running mean and variance, for observations and rewards that are brought to a common scale."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.spaces import Floats

CLIP = 10.0
_EPSILON = 1e-8


class RunningMoments:
    """Mean and variance of all rows seen so far (Chan's parallel update)."""

    def __init__(self, size: int) -> None:
        self.mean = np.zeros(size)
        self.variance = np.ones(size)
        self.count = 0.0

    def take_in(self, rows: NDArray[Any]) -> None:
        """Add rows to what was seen."""
        mean, variance, count = (
            rows.mean(axis=0, dtype=np.float64),
            rows.var(axis=0, dtype=np.float64),
            float(len(rows)),
        )
        total = self.count + count
        shift = mean - self.mean
        spread = self.variance * self.count + variance * count + shift**2 * self.count * count / total
        self.mean = self.mean + shift * count / total
        self.variance = spread / total
        self.count = total

    def normalise(self, rows: Floats) -> Floats:
        """Return rows with about mean 0 and variance 1, cut at ±10."""
        scale = np.sqrt(self.variance + _EPSILON)
        return np.clip((rows - self.mean) / scale, -CLIP, CLIP).astype(np.float32)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return what :meth:`restore` needs."""
        return {f"{name}.mean": self.mean, f"{name}.variance": self.variance, f"{name}.count": np.array([self.count])}

    def restore(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from saved moments."""
        self.mean, self.variance = arrays[f"{name}.mean"].copy(), arrays[f"{name}.variance"].copy()
        self.count = float(arrays[f"{name}.count"][0])


class RewardScale:
    """Divides rewards by the spread of the discounted return, so that values stay near 1."""

    def __init__(self, simulators: int, gamma: float) -> None:
        self._gamma = gamma
        self._returns = np.zeros(simulators)
        self._moments = RunningMoments(1)

    def scale(self, rewards: Floats, ends: Floats) -> Floats:
        """Take one rollout in and return its rewards scaled."""
        seen = np.empty(rewards.shape)
        for t in range(len(rewards)):
            self._returns = self._returns * self._gamma + rewards[t]
            seen[t] = self._returns
            self._returns = self._returns * (1 - ends[t])
        self._moments.take_in(seen.reshape(-1, 1))
        scaled = rewards / np.sqrt(self._moments.variance[0] + _EPSILON)
        return np.clip(scaled, -CLIP, CLIP).astype(np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what :meth:`restore` needs."""
        return {"reward_scale.returns": self._returns, **self._moments.arrays("reward_scale")}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a saved scale."""
        self._returns = arrays["reward_scale.returns"].copy()
        self._moments.restore("reward_scale", arrays)
