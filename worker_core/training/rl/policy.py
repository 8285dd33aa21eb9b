"""The policy: an actor and a critic, two separate perceptrons with tanh between their layers.

All weights lie in one flat vector of which the layers are views. Clipping and Adam then handle one array instead of a
dozen, and whatever learns or acts with these weights shares their memory.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.spaces import Actions, BoxActions, Floats

T = TypeVar("T", bound=np.generic)
Layer = tuple[Floats, Floats]
"""Weight (outputs x inputs) and bias of one layer."""


class Policy:
    """Weights of actor, critic and (for continuous actions) the log of the spread."""

    def __init__(self, observation_size: int, actions: Actions, hidden: Sequence[int]) -> None:
        self.actions = actions
        self.shapes = _named_shapes(observation_size, actions, hidden)
        self.flat: Floats = np.zeros(sum(int(np.prod(shape)) for shape in self.shapes.values()), np.float32)
        self.arrays = self.views(self.flat)
        self.actor = layers_of("actor", self.arrays)
        self.critic = layers_of("critic", self.arrays)
        self.log_std = self.arrays.get("log_std")

    def views(self, flat: NDArray[T]) -> dict[str, NDArray[T]]:
        """Return views of a vector as long as the weights: one for each named weight."""
        ends = list(itertools.accumulate(int(np.prod(shape)) for shape in self.shapes.values()))
        starts = [0, *ends[:-1]]
        named = zip(self.shapes.items(), starts, ends, strict=True)
        return {name: flat[start:end].reshape(shape) for (name, shape), start, end in named}

    def initialise(self, rng: np.random.Generator) -> None:
        """Fill in the first weights: orthogonal, small in the actor's last layer so that it begins near uniform."""
        for layers, last_gain in ((self.actor, 0.01), (self.critic, 1.0)):
            for index, (weight, _) in enumerate(layers):
                gain = last_gain if index == len(layers) - 1 else np.sqrt(2)
                weight[:] = gain * _orthogonal(weight.shape, rng)


def layers_of(network: str, arrays: Mapping[str, Floats]) -> list[Layer]:
    """Return the layers of one network among named arrays."""
    count = sum(1 for name in arrays if name.startswith(f"{network}.")) // 2
    return [(arrays[f"{network}.{i}.weight"], arrays[f"{network}.{i}.bias"]) for i in range(count)]


def _orthogonal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    rows, columns = shape
    drawn = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    # Without the signs of r's diagonal the matrix would not be uniform over the orthogonal ones.
    q = q * np.sign(np.diag(r))
    return q if rows >= columns else q.T


def _named_shapes(observation_size: int, actions: Actions, hidden: Sequence[int]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for network, outputs in (("actor", actions.outputs), ("critic", 1)):
        for index, (fan_in, fan_out) in enumerate(itertools.pairwise((observation_size, *hidden, outputs))):
            shapes[f"{network}.{index}.weight"] = (fan_out, fan_in)
            shapes[f"{network}.{index}.bias"] = (fan_out,)
    if isinstance(actions, BoxActions):
        shapes["log_std"] = (actions.outputs,)
    return shapes
