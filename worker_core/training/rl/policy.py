"""The policy: an actor and a critic, two separate perceptrons with tanh between their layers.

All weights lie in one flat vector. Layers are views into it, and so are their gradients: clipping and Adam then handle
one tensor instead of a dozen, and on a CPU the acting copy in NumPy is the same memory.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from worker_core.training.rl.spaces import Actions, BoxActions, Floats

Layer = tuple[Tensor, Tensor]

_LOG_2PI = float(np.log(2 * np.pi))


class ActorCritic:
    """Weights of actor, critic and (for continuous actions) the log of the spread."""

    def __init__(self, observation_size: int, actions: Actions, hidden: Sequence[int], device: torch.device) -> None:
        self.actions = actions
        shapes = _named_shapes(observation_size, actions, hidden)
        self.names = tuple(shapes)
        size = sum(int(np.prod(shape)) for shape in shapes.values())
        self.flat = torch.zeros(size, device=device)
        self.gradient = torch.zeros_like(self.flat)
        self.flat.grad = self.gradient
        self.tensors: dict[str, Tensor] = {}
        start = 0
        for name, shape in shapes.items():
            end = start + int(np.prod(shape))
            leaf = self.flat[start:end].view(shape).requires_grad_()
            leaf.grad = self.gradient[start:end].view(shape)
            self.tensors[name] = leaf
            start = end
        self.actor = self._layers("actor")
        self.critic = self._layers("critic")
        self.log_std = self.tensors.get("log_std")

    def initialise(self, generator: torch.Generator) -> None:
        """Fill in the first weights: orthogonal, small in the actor's last layer so that it begins near uniform."""
        with torch.no_grad():
            for layers, last_gain in ((self.actor, 0.01), (self.critic, 1.0)):
                for index, (weight, _) in enumerate(layers):
                    gain = last_gain if index == len(layers) - 1 else 2**0.5
                    drawn = torch.empty(weight.shape)
                    torch.nn.init.orthogonal_(drawn, gain, generator=generator)
                    weight.copy_(drawn)

    def values(self, observations: Tensor) -> Tensor:
        """Return V(s) of each row."""
        return _perceptron(observations, self.critic)[:, 0]

    def log_probability(self, observations: Tensor, chosen: Tensor) -> Tensor:
        """Return log π(a|s) of each row."""
        return self._judge(_perceptron(observations, self.actor), chosen, entropy=False)[0]

    def judge(self, observations: Tensor, chosen: Tensor, *, entropy: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return log π(a|s), V(s) and the mean entropy of π (zero where it was not asked for)."""
        log_probability, mean_entropy = self._judge(_perceptron(observations, self.actor), chosen, entropy=entropy)
        return log_probability, _perceptron(observations, self.critic)[:, 0], mean_entropy

    def _judge(self, outputs: Tensor, chosen: Tensor, *, entropy: bool) -> tuple[Tensor, Tensor]:
        if isinstance(self.actions, BoxActions):
            return self._judge_gaussian(outputs, chosen)
        log_probability = mean_entropy = torch.zeros((), device=outputs.device)
        for column, logits in enumerate(torch.split(outputs, self.actions.choices, dim=1)):
            log_p = logits.log_softmax(dim=1)
            log_probability = log_probability + log_p.gather(1, chosen[:, column : column + 1])[:, 0]
            if entropy:
                mean_entropy = mean_entropy - (log_p.exp() * log_p).sum(dim=1).mean()
        return log_probability, mean_entropy

    def _judge_gaussian(self, means: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        assert self.log_std is not None
        scaled = (chosen - means) * torch.exp(-self.log_std)
        log_probability = (-0.5 * scaled.square() - self.log_std - 0.5 * _LOG_2PI).sum(dim=1)
        return log_probability, (self.log_std + 0.5 + 0.5 * _LOG_2PI).sum()

    def acting(self) -> "ActingPolicy":
        """Return the actor for NumPy; on a CPU it shares memory and so never grows stale."""
        layers = [(_shared(weight).T, _shared(bias)) for weight, bias in self.actor]
        return ActingPolicy(self.actions, layers, None if self.log_std is None else _shared(self.log_std))

    def _layers(self, network: str) -> list[Layer]:
        count = sum(1 for name in self.names if name.startswith(f"{network}.")) // 2
        return [(self.tensors[f"{network}.{i}.weight"], self.tensors[f"{network}.{i}.bias"]) for i in range(count)]


class ActingPolicy:
    """The actor alone, in NumPy: for a handful of rows it is several times quicker than torch."""

    def __init__(
        self, actions: Actions, layers: list[tuple[NDArray[Any], NDArray[Any]]], log_std: Floats | None
    ) -> None:
        self._actions = actions
        self._hidden = layers[:-1]
        self._weight, self._bias = layers[-1]
        self._log_std = log_std

    def choose(self, observations: Floats, noise: Floats | None) -> NDArray[Any]:
        """Return one action a row: sampled with ``noise``, greedy without."""
        rows = observations
        for weight, bias in self._hidden:
            rows = rows @ weight
            rows += bias
            np.tanh(rows, out=rows)
        outputs = rows @ self._weight
        outputs += self._bias
        if noise is not None and self._log_std is not None:
            noise = noise * np.exp(self._log_std)
        return self._actions.choose(outputs, noise)


def _perceptron(rows: Tensor, layers: list[Layer]) -> Tensor:
    for weight, bias in layers[:-1]:
        rows = torch.tanh(linear(rows, weight, bias))
    weight, bias = layers[-1]
    return linear(rows, weight, bias)


def _named_shapes(observation_size: int, actions: Actions, hidden: Sequence[int]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for network, outputs in (("actor", actions.outputs), ("critic", 1)):
        for index, (fan_in, fan_out) in enumerate(itertools.pairwise((observation_size, *hidden, outputs))):
            shapes[f"{network}.{index}.weight"] = (fan_out, fan_in)
            shapes[f"{network}.{index}.bias"] = (fan_out,)
    if isinstance(actions, BoxActions):
        shapes["log_std"] = (actions.outputs,)
    return shapes


def _shared(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy()
