"""Running mean and variance, for observations and rewards that are brought to a common scale."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.spaces import Floats

CLIP = 10.0
_EPSILON = 1e-8


class RunningMoments:
    """Mean and variance of all columns seen so far (Chan's parallel update)."""

    def __init__(self, size: int) -> None:
        self.mean = np.zeros(size)
        self.variance = np.ones(size)
        self.count = 0.0

    def take_in(self, columns: NDArray[Any]) -> None:
        """Add columns to what was seen."""
        mean, variance, count = (
            columns.mean(axis=1, dtype=np.float64),
            columns.var(axis=1, dtype=np.float64),
            float(columns.shape[1]),
        )
        total = self.count + count
        shift = mean - self.mean
        spread = self.variance * self.count + variance * count + shift**2 * self.count * count / total
        self.mean = self.mean + shift * count / total
        self.variance = spread / total
        self.count = total

    def normalise(self, columns: NDArray[Any], out: Floats) -> None:
        """Write the columns with about mean 0 and variance 1, cut at ±10, into ``out``."""
        scale = (1 / np.sqrt(self.variance + _EPSILON)).astype(np.float32)
        np.subtract(columns, self.mean[:, None].astype(np.float32), out=out)
        out *= scale[:, None]
        np.maximum(out, np.float32(-CLIP), out=out)
        np.minimum(out, np.float32(CLIP), out=out)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return what :meth:`restore` needs."""
        return {f"{name}.mean": self.mean, f"{name}.variance": self.variance, f"{name}.count": np.array([self.count])}

    def restore(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from saved moments."""
        self.mean, self.variance = arrays[f"{name}.mean"].copy(), arrays[f"{name}.variance"].copy()
        self.count = float(arrays[f"{name}.count"][0])


class RewardScale:
    """Divides rewards by the spread of the discounted return, so that values stay near 1."""

    def __init__(self) -> None:
        self._moments = RunningMoments(1)

    def take_in(self, returns: NDArray[Any]) -> None:
        """Add the discounted returns of one rollout, in any shape."""
        self._moments.take_in(returns.reshape(1, -1))

    def scale(self, rewards: Floats) -> Floats:
        """Return rewards on the common scale."""
        scaled = rewards * np.float32(1 / np.sqrt(self._moments.variance[0] + _EPSILON))
        np.maximum(scaled, np.float32(-CLIP), out=scaled)
        return np.minimum(scaled, np.float32(CLIP), out=scaled)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what :meth:`restore` needs."""
        return self._moments.arrays("reward_scale")

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a saved scale."""
        self._moments.restore("reward_scale", arrays)


def discount(rewards: Floats, ends: Floats, running: NDArray[np.float64], gamma: float, out: Floats) -> None:
    """Write the discounted return of each simulator after each step (steps x simulators); ``running`` goes on."""
    for t in range(len(rewards)):
        running *= gamma
        running += rewards[t]
        out[t] = running
        running *= 1 - ends[t]
