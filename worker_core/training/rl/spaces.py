"""Between a simulator's spaces and arrays: observations become flat float32 vectors, actions what ``step`` takes.

Arrays hold one simulator a column, because that is how the networks want them.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatdim, flatten
from numpy.typing import NDArray

Floats = NDArray[np.float32]
MAX_OBSERVATION = 100_000


class UnsupportedSpace(ValueError):
    """PPO here cannot see, or act in, this space; the text says what it can."""


class Observations:
    """Reads observations of one space into flat vectors of ``size`` numbers."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        if isinstance(space, (spaces.Graph, spaces.Sequence, spaces.Text, spaces.OneOf)):
            raise UnsupportedSpace(
                f"the observation space is {space}; it must be Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or "
                "Tuple of them"
            )
        self.space = space
        self.size = flatdim(space)
        if self.size > MAX_OBSERVATION:
            raise UnsupportedSpace(
                f"an observation has {self.size:,} numbers, above {MAX_OBSERVATION:,}; make it smaller in the simulator"
            )
        self.read: Callable[[Any], Any] = self._reader(space)

    def describe(self) -> dict[str, object]:
        """Return the space as JSON, for the person who plays the policy elsewhere."""
        shape = list(self.space.shape) if self.space.shape is not None else None
        return {
            "type": type(self.space).__name__,
            "shape": shape,
            "flat_size": self.size,
            "text": str(self.space)[:2000],
        }

    def _reader(self, space: gymnasium.Space[Any]) -> Callable[[Any], Any]:
        if not isinstance(space, spaces.Box):
            return lambda observation: cast("Any", flatten(space, observation))
        # One-dimensional boxes are what nearly all simulators have: no call between them and the array.
        return _unchanged if len(space.shape) == 1 else np.ravel


def _unchanged(observation: Any) -> Any:
    return observation


class DiscreteActions:
    """Discrete and multi-discrete actions: one group of logits for each choice."""

    continuous = False

    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete) -> None:
        single = isinstance(space, spaces.Discrete)
        self._single = single
        self.space = space
        self.choices = [int(space.n)] if single else [int(n) for n in cast(Sequence[int], np.ravel(space.nvec))]
        self.start = np.asarray([space.start]) if single else np.ravel(space.start)
        self._from_zero = not self.start.any()
        self.outputs = sum(self.choices)
        self.columns = len(self.choices)
        self._edges = np.cumsum(self.choices)[:-1]

    def noise(self, rng: np.random.Generator, steps: int, simulators: int) -> Floats:
        """Return Gumbel noise, steps x outputs x simulators: the largest noisy logit is a sample of the softmax."""
        noise = rng.standard_exponential((steps, self.outputs, simulators), dtype=np.float32)
        np.maximum(noise, np.float32(1e-30), out=noise)
        np.log(noise, out=noise)
        return np.negative(noise, out=noise)

    def choose(self, outputs: Floats, noise: Floats | None) -> NDArray[Any]:
        """Return the choices (choices x simulators) of these logits: sampled, or the likeliest ones without noise."""
        noisy = outputs if noise is None else outputs + noise
        if self._single:
            return noisy.argmax(axis=0)[None]
        return np.stack([part.argmax(axis=0) for part in self.groups(noisy)])

    def random(self, rng: np.random.Generator, simulators: int) -> NDArray[Any]:
        """Return choices of which each is as likely as the others."""
        return rng.integers(0, np.asarray(self.choices)[:, None], (self.columns, simulators))

    def groups(self, outputs: Floats) -> list[Floats]:
        """Return the logits of each choice."""
        return [outputs] if self._single else np.split(outputs, self._edges)

    def for_step(self, chosen: NDArray[Any]) -> list[Any]:
        """Return what each simulator's ``step`` takes."""
        if self._single:
            # NumPy's integers, as the space itself would draw: checking those is quicker than Python's.
            return list(chosen[0] if self._from_zero else chosen[0] + self.start[0])
        shifted = chosen.T + self.start
        return [row.reshape(self.space.shape).astype(self.space.dtype) for row in shifted]

    def describe(self) -> dict[str, object]:
        """Return the space as JSON."""
        return {
            "type": type(self.space).__name__,
            "choices": self.choices,
            "start": [int(value) for value in self.start],
            "shape": list(self.space.shape or ()),
        }


class BoxActions:
    """Continuous actions: a Gaussian of learned mean and spread, cut to the bounds where it meets the simulator."""

    continuous = True

    def __init__(self, space: "spaces.Box[Any]") -> None:
        self.space = space
        self.outputs = self.columns = int(np.prod(space.shape))
        self._low, self._high = np.ravel(space.low), np.ravel(space.high)
        self._is_flat = len(space.shape) == 1

    def noise(self, rng: np.random.Generator, steps: int, simulators: int) -> Floats:
        """Return standard normal noise, steps x outputs x simulators, to be scaled by the policy's spread."""
        return rng.standard_normal((steps, self.outputs, simulators), dtype=np.float32)

    def choose(self, outputs: Floats, noise: Floats | None) -> NDArray[Any]:
        """Return the numbers (numbers x simulators) of these means."""
        return outputs.copy() if noise is None else outputs + noise

    def random(self, rng: np.random.Generator, simulators: int) -> NDArray[Any]:
        """Return numbers from all over the bounds, and normal ones where there are none."""
        bounded = np.isfinite(self._low) & np.isfinite(self._high)
        low, high = np.where(bounded, self._low, 0.0), np.where(bounded, self._high, 1.0)
        uniform = rng.uniform(low[:, None], high[:, None], (self.columns, simulators))
        normal = rng.standard_normal((self.columns, simulators))
        return np.where(bounded[:, None], uniform, normal).astype(np.float32)

    def for_step(self, chosen: NDArray[Any]) -> list[Any]:
        """Return what each simulator's ``step`` takes: inside the bounds, in the space's own type."""
        # Cut in the space's own type: a bound that was rounded to another may lie outside.
        bounded = np.maximum(chosen.T.astype(self.space.dtype), self._low)
        np.minimum(bounded, self._high, out=bounded)
        return list(bounded) if self._is_flat else [row.reshape(self.space.shape) for row in bounded]

    def describe(self) -> dict[str, object]:
        """Return the space as JSON."""
        low, high = ([str(value) for value in bound.tolist()] for bound in (self._low, self._high))
        return {
            "type": "Box",
            "shape": list(self.space.shape),
            "low": low,
            "high": high,
            "dtype": str(self.space.dtype),
        }


Actions = DiscreteActions | BoxActions


def read_actions(space: gymnasium.Space[Any]) -> Actions:
    """Return how to act in ``space``; raises :class:`UnsupportedSpace`."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return DiscreteActions(space)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(space, spaces.Box):
        box = cast("spaces.Box[Any]", space)  # pyright: ignore[reportUnknownArgumentType]
        if np.issubdtype(box.low.dtype, np.floating):
            return BoxActions(box)
    raise UnsupportedSpace(f"the action space is {space}; it must be Discrete, MultiDiscrete or a Box of float numbers")
