"""Actor and critic side by side in NumPy: forward and backward passes of both in one go.

Perceptrons of this size are dominated by what each call of NumPy costs, so everything is arranged to need few calls:

- Columns are rows of data: an array is features x rows, so that a layer's output is one contiguous block.
- A row of ones stands in each layer's input, so that the bias is one more column of the weight.
- Both networks share the first product and every elementwise step. A layer's output is laid out as actor, ones,
  critic: the actor's next layer reads the front with the ones, the critic's the ones with the back.

The weights lie in one vector in an order of their own; :class:`Joint` translates to and from that of the policy.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.policy import Policy
from worker_core.training.rl.spaces import Floats

Indices = NDArray[np.intp]
_SMALL = 2048
_MOST_SPACES = 16
"""Numbers of rows for which memory is kept; some differ from update to update."""


class Matrices(NamedTuple):
    """Views of one vector: the weights with their biases, or a gradient in the same places."""

    first: Floats
    """Both networks' first layer, one above the other with an unused row between; absent (0 rows) without hidden
    layers."""
    actor: list[Floats]
    """The actor's further layers; the bias is the last column."""
    critic: list[Floats]
    """The critic's further layers; the bias is the first column."""
    log_std: Floats | None


class Workspace:
    """Memory for passes of ``rows`` rows; it is written over by the next pass of as many rows."""

    def __init__(self, hidden: Sequence[int], outputs: int, rows: int) -> None:
        self.layers: list[Floats] = [np.ones((2 * width + 1, rows), np.float32) for width in hidden]
        self.slopes: list[Floats] = [np.zeros_like(layer) for layer in self.layers]
        self.scratch: list[Floats] = [np.empty_like(layer) for layer in self.layers]
        self.outputs: Floats = np.empty((outputs, rows), np.float32)
        self.values: Floats = np.empty((1, rows), np.float32)


class Joint:
    """Both networks of one policy. Inputs are features x rows with a last row of ones."""

    def __init__(self, policy: Policy) -> None:
        self.hidden = [len(bias) for _, bias in policy.actor[:-1]]
        self._outputs = policy.actions.outputs
        self._shapes, self._index = _arrange(policy)
        self._used = self._index > 0
        self.flat: Floats = np.zeros(len(self._index), np.float32)
        self.weights = self.views(self.flat)
        self._spaces: dict[int, Workspace] = {}
        self.read(policy.flat)

    # Between the policy's order and this one

    def read(self, flat: Floats) -> None:
        """Take weights in from a vector in the policy's order."""
        self.flat[:] = self.arranged(flat)

    def arranged(self, flat: Floats) -> Floats:
        """Return a vector of the policy's order in this one."""
        return np.concatenate((np.zeros(1, np.float32), flat))[self._index]

    def plain(self, arranged: Floats) -> Floats:
        """Return a vector of this order in the policy's."""
        flat = np.empty(int(self._used.sum()), np.float32)
        flat[self._index[self._used] - 1] = arranged[self._used]
        return flat

    def views(self, flat: Floats) -> Matrices:
        """Return views of a vector of this order."""
        parts: list[Floats] = []
        start = 0
        for rows, columns in self._shapes:
            parts.append(flat[start : start + rows * columns].reshape(rows, columns))
            start += rows * columns
        depth = max(1, len(self.hidden))
        log_std = flat[start:] if start < len(flat) else None
        return Matrices(parts[0], parts[1 : 1 + depth], parts[1 + depth : 1 + 2 * depth], log_std)

    def workspace(self, rows: int) -> Workspace:
        """Return the memory for passes of so many rows."""
        found = self._spaces.get(rows)
        if found is None:
            if len(self._spaces) >= _MOST_SPACES:
                del self._spaces[next(iter(self._spaces))]
            found = self._spaces[rows] = Workspace(self.hidden, self._outputs, rows)
        return found

    # Forward

    def act(self, inputs: Floats) -> Floats:
        """Return the actor's outputs, outputs x rows."""
        space, weights = self.workspace(inputs.shape[1]), self.weights
        for index, width in enumerate(self.hidden):
            layer = space.layers[index][:width]
            np.dot(weights.actor[index - 1] if index else weights.first[:width], inputs, out=layer)
            _squash(layer)
            space.layers[index][width] = 1.0
            inputs = space.layers[index][: width + 1]
        return np.dot(weights.actor[-1], inputs, out=space.outputs)

    def judge(self, inputs: Floats) -> Floats:
        """Return the critic's values, one for each row."""
        space, weights = self.workspace(inputs.shape[1]), self.weights
        for index, width in enumerate(self.hidden):
            layer = space.layers[index][width + 1 :]
            np.dot(weights.critic[index - 1] if index else weights.first[width + 1 :], inputs, out=layer)
            _squash(layer)
            space.layers[index][width] = 1.0
            inputs = space.layers[index][width:]
        return np.dot(weights.critic[-1], inputs, out=space.values)[0]

    def forward(self, inputs: Floats) -> tuple[Floats, Floats]:
        """Return outputs and values, and keep what :meth:`backward` needs in the workspace."""
        space, weights = self.workspace(inputs.shape[1]), self.weights
        front = back = inputs
        for index, width in enumerate(self.hidden):
            layer = space.layers[index]
            if index:
                np.dot(weights.actor[index - 1], front, out=layer[:width])
                np.dot(weights.critic[index - 1], back, out=layer[width + 1 :])
            else:
                np.dot(weights.first, inputs, out=layer)
            _squash(layer)
            layer[width] = 1.0
            front, back = layer[: width + 1], layer[width:]
        np.dot(weights.actor[-1], front, out=space.outputs)
        return space.outputs, np.dot(weights.critic[-1], back, out=space.values)[0]

    # Backward

    def backward(self, inputs: Floats, output_slopes: Floats, value_slopes: Floats, gradient: Matrices) -> None:
        """Fill ``gradient`` with that of the last :meth:`forward`, whose results have these slopes."""
        space, weights = self.workspace(inputs.shape[1]), self.weights
        front, back = output_slopes, value_slopes
        for index in range(len(self.hidden), 0, -1):
            width, layer, slope = self.hidden[index - 1], space.layers[index - 1], space.slopes[index - 1]
            np.dot(front, layer[: width + 1].T, out=gradient.actor[index - 1])
            np.dot(back, layer[width:].T, out=gradient.critic[index - 1])
            np.dot(weights.actor[index - 1][:, :width].T, front, out=slope[:width])
            np.dot(weights.critic[index - 1][:, 1:].T, back, out=slope[width + 1 :])
            # tanh' = 1 - tanh²; for the row of ones that is 0, so nothing flows through it.
            squared = np.multiply(layer, layer, out=space.scratch[index - 1])
            np.subtract(1, squared, out=squared)
            slope *= squared
            front, back = slope[:width], slope[width + 1 :]
        if self.hidden:
            np.dot(space.slopes[0], inputs.T, out=gradient.first)
        else:
            np.dot(front, inputs.T, out=gradient.actor[0])
            np.dot(back, inputs.T, out=gradient.critic[0])


def _squash(layer: Floats) -> None:
    """Apply tanh in place.

    NumPy has vector instructions for float32's exp on every x86 processor, for its tanh only on the newest. On arrays
    too small to gain from that, tanh's one call wins.
    """
    if layer.size < _SMALL:
        np.tanh(layer, out=layer)
        return
    with np.errstate(over="ignore"):  # exp of a large number is infinite, and tanh then exactly -1
        np.multiply(layer, np.float32(-2), out=layer)
        np.exp(layer, out=layer)
    np.add(layer, np.float32(1), out=layer)
    np.divide(np.float32(2), layer, out=layer)
    np.subtract(layer, np.float32(1), out=layer)


def _arrange(policy: Policy) -> tuple[list[tuple[int, int]], Indices]:
    """Return the matrices' shapes, and for each place of the vector which weight (from 1) stands there; 0 for none."""
    place = policy.views(np.arange(1, len(policy.flat) + 1, dtype=np.intp))
    layers = len(policy.actor)

    def weight(network: str, index: int) -> Indices:
        return place[f"{network}.{index}.weight"]

    def bias(network: str, index: int) -> Indices:
        return place[f"{network}.{index}.bias"][:, None]

    def bias_last(network: str, index: int) -> Indices:
        return np.hstack((weight(network, index), bias(network, index)))

    columns = weight("actor", 0).shape[1] + 1
    first = np.zeros((0, columns), np.intp)
    if layers > 1:
        first = np.vstack((bias_last("actor", 0), np.zeros((1, columns), np.intp), bias_last("critic", 0)))
    start = min(1, layers - 1)
    actor = [bias_last("actor", index) for index in range(start, layers)]
    if layers > 1:
        critic = [np.hstack((bias("critic", index), weight("critic", index))) for index in range(start, layers)]
    else:
        critic = [bias_last("critic", 0)]
    matrices = [first, *actor, *critic]
    flat = [matrix.ravel() for matrix in matrices] + ([place["log_std"]] if "log_std" in place else [])
    return [(len(matrix), matrix.shape[1]) for matrix in matrices], np.concatenate(flat)
