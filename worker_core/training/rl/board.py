"""The memory that all processes of one training share: the rollout, and the gradients of the parts of a minibatch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.policy import Policy
from worker_core.training.rl.spaces import Floats

_ALIGNED = 64
"""Bytes: two processes never write into the same line of the processor's cache."""


@dataclass(frozen=True)
class Shape:
    """How large everything is."""

    observation: int
    columns: int
    """Numbers of one action."""
    continuous: bool
    simulators: int
    shards: int
    fragment: int
    """The most steps of one rollout."""
    slot: int
    """Length of the gradient of one part."""
    weights: int
    """Length of the weights as a back end holds them."""

    @staticmethod
    def of(policy: Policy, weights: int, simulators: int, shards: int, fragment: int, slot: int) -> "Shape":
        """Return the shape of a training of ``policy``."""
        return Shape(
            observation=policy.actor[0][0].shape[1],
            columns=policy.actions.columns,
            continuous=policy.actions.continuous,
            simulators=simulators,
            shards=shards,
            fragment=fragment,
            slot=slot,
            weights=weights,
        )

    def bounds(self, count: int, shard: int) -> tuple[int, int]:
        """Return which of ``count`` things are a shard's, the same in every process."""
        return count * shard // self.shards, count * (shard + 1) // self.shards


@dataclass(frozen=True)
class Rollout:
    """T steps of S simulators. Column t x S + s is step t of simulator s; other arrays are T x S."""

    raw: Floats
    """Observations as the simulators gave them; the same memory as ``inputs`` where nothing is normalised."""
    inputs: Floats
    """Observations as the policy saw them, and a last row of ones."""
    chosen: NDArray[Any]
    rewards: Floats
    ends: Floats
    """1 where an episode ended with this step, terminated or truncated."""
    discounted: Floats
    """The return of each simulator so far, discounted, for scaling rewards."""
    values: Floats
    old: Floats
    """log π_old(a|s)"""
    advantages: Floats
    returns: Floats

    @property
    def steps(self) -> int:
        return len(self.rewards)


class Board:
    """Views of one piece of memory; ``memory`` is this process's own, or shared."""

    def __init__(self, shape: Shape, memory: Any = None) -> None:
        self.shape = shape
        plan = _plan(shape)
        self._memory = np.frombuffer(memory, np.uint8) if memory is not None else np.zeros(size_of(shape), np.uint8)
        self._parts: dict[str, NDArray[Any]] = {}
        start = 0
        for name, kind, count in plan:
            bytes_ = count * np.dtype(kind).itemsize
            self._parts[name] = self._memory[start : start + bytes_].view(kind)
            start += -(-bytes_ // _ALIGNED) * _ALIGNED
        self.slots: Floats = self._parts["slots"].reshape(2, shape.shards, shape.slot)
        """The parts of one minibatch, and of the one before, which slower processes may still read."""
        self.replica: Floats = self._parts["replica"].reshape(3, shape.weights)
        """Weights and Adam's moments, where one process learned alone."""
        self.arrivals: NDArray[np.int64] = self._parts["arrivals"]
        self._rollouts: dict[int, Rollout] = {}

    def rollout(self, steps: int, *, normalised: bool) -> Rollout:
        """Return the arrays for so many steps."""
        if steps not in self._rollouts:
            self._rollouts[steps] = self._cut(steps, normalised=normalised)
        return self._rollouts[steps]

    def _cut(self, steps: int, *, normalised: bool) -> Rollout:
        shape = self.shape
        table, columns = (steps, shape.simulators), steps * shape.simulators

        def take(name: str, *size: int) -> NDArray[Any]:
            return self._parts[name][: int(np.prod(size))].reshape(size)

        inputs = take("inputs", shape.observation + 1, columns)
        inputs[-1] = 1.0
        raw = take("raw", shape.observation, columns) if normalised else inputs[:-1]
        names = ("rewards", "ends", "discounted", "values", "old", "advantages", "returns")
        return Rollout(raw, inputs, take("chosen", shape.columns, columns), *(take(name, *table) for name in names))


def size_of(shape: Shape) -> int:
    """Return how many bytes a board takes."""
    return sum(-(-count * np.dtype(kind).itemsize // _ALIGNED) * _ALIGNED for _, kind, count in _plan(shape))


def _plan(shape: Shape) -> list[tuple[str, Any, int]]:
    rows = shape.fragment * shape.simulators
    tables: Callable[[str], tuple[str, Any, int]] = lambda name: (name, np.float32, rows)  # noqa: E731
    return [
        ("arrivals", np.int64, 16 * (shape.shards + 1)),
        ("inputs", np.float32, rows * (shape.observation + 1)),
        ("raw", np.float32, rows * shape.observation),
        ("chosen", np.float32 if shape.continuous else np.int64, rows * shape.columns),
        *map(tables, ("rewards", "ends", "discounted", "values", "old", "advantages", "returns")),
        ("slots", np.float32, 2 * shape.shards * shape.slot),
        ("replica", np.float32, 3 * shape.weights),
    ]
