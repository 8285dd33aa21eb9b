"""Steps down PPO's loss, worked out by hand in NumPy.

For perceptrons of a few thousand weights autograd costs several times the arithmetic itself, so these gradients are
written down. :mod:`worker_core.training.rl.descent_torch` does the same with torch, for larger networks and for
GPUs; a test keeps the two in agreement.

The loss, in the words of :mod:`worker_core.training.rl.ppo`, of a minibatch of N rows:
L = -mean(min(r Â, clip(r, 1±ε) Â)) + c_v mean((R - V)²) - c_e mean(H), with r = exp(log π(a|s) - log π_old(a|s)).

A minibatch may be worked on in parts, by several processes: each part's gradient is that of its share of the whole
loss, and their sum, always taken in the same order, is the gradient.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.joint import Joint, Matrices
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.spaces import BoxActions, DiscreteActions, Floats
from worker_core.wire.spec import Ppo

ADAM_BETA_1, ADAM_BETA_2, ADAM_EPSILON = 0.9, 0.999, 1e-5
LOG_2PI = float(np.log(2 * np.pi))
SUMS = 5
"""How many sums of a part's rows stand behind its gradient: objective, squared error, entropy, KL, clipped rows."""


class Batch(NamedTuple):
    """Rows to learn from, each a column of these arrays or torch tensors."""

    inputs: Any
    """What the policy saw, and a last row of ones."""
    chosen: Any
    old: Any
    """log π_old(a|s)"""
    advantages: Any
    returns: Any

    def part(self, start: int, end: int) -> "Batch":
        """Return some of the rows."""
        return Batch(*(column[..., start:end] for column in self))


class Figures(NamedTuple):
    """What one minibatch tells about learning."""

    loss: float
    policy_loss: float
    value_loss: float
    entropy: float
    approx_kl: float
    clip_fraction: float
    grad_norm: float
    """Of the whole gradient, before it is clipped."""


class Moments(NamedTuple):
    """What Adam remembers, in the policy's order: first and second moments, and how many steps it took."""

    first: Floats
    second: Floats
    steps: int


class Descent(Protocol):
    """What PPO needs from a back end; all of it works on the weights of one :class:`Policy`."""

    slot: int
    """Length of the vector in which one part's gradient travels; 0 for a back end that works on whole minibatches."""

    def load(self, batch: Batch) -> Batch:
        """Bring rows to where they are needed."""
        ...

    def values(self, inputs: Floats) -> Floats:
        """Return V(s) of each row."""
        ...

    def log_probability(self, inputs: Floats, chosen: NDArray[Any]) -> Floats:
        """Return log π(a|s) of each row."""
        ...

    def differentiate(self, rows: Batch, count: int, slot: Floats, *, told: bool) -> None:
        """Work out the gradient of these rows of a minibatch of ``count``; sums for figures only when ``told``."""
        ...

    def descend(self, slots: Floats, count: int, learning_rate: float, *, told: bool) -> Figures | None:
        """Take one step of Adam down the sum of the parts (parts x slot)."""
        ...

    def finish(self) -> None:
        """Bring the weights back into the policy after an update."""
        ...

    def moments(self) -> Moments:
        """Return what Adam remembers."""
        ...

    def restore(self, moments: Moments) -> None:
        """Go on from the policy's present weights and these moments."""
        ...


class NumpyDescent:
    """The hand-written back end. Weights and moments lie in the order of ``joint``."""

    def __init__(self, policy: Policy, joint: Joint, settings: Ppo) -> None:
        self._policy, self._joint, self._settings = policy, joint, settings
        size = len(joint.flat)
        self.slot = size + SUMS
        self.first: Floats = np.zeros(size, np.float32)
        self.second: Floats = np.zeros(size, np.float32)
        self.steps = 0
        self._total: Floats = np.zeros(self.slot, np.float32)
        self._cut: dict[int, Matrices] = {}
        self._scratch: tuple[Floats, Floats] = np.empty(size, np.float32), np.empty(size, np.float32)

    @property
    def gradient(self) -> Floats:
        """The last minibatch's gradient in the policy's order, after it was clipped."""
        return self._joint.plain(self._total[:-SUMS])

    def load(self, batch: Batch) -> Batch:
        return batch

    def values(self, inputs: Floats) -> Floats:
        return self._joint.judge(inputs).copy()

    def log_probability(self, inputs: Floats, chosen: NDArray[Any]) -> Floats:
        outputs = self._joint.act(inputs)
        actions = self._policy.actions
        if isinstance(actions, BoxActions):
            return _gaussian(outputs, self._spread(), chosen)[0]
        return _sum([_picked(log_p, taken) for log_p, _, taken in _categorical(outputs, actions, chosen)])

    def differentiate(self, rows: Batch, count: int, slot: Floats, *, told: bool) -> None:
        gradient = self._views_of(slot)
        sums = slot[-SUMS:] if told else None
        # A slice's rows may lie a power of two apart, where they push each other out of the processor's cache.
        inputs = np.ascontiguousarray(rows.inputs)
        outputs, values = self._joint.forward(inputs)
        actions = self._policy.actions
        if isinstance(actions, BoxActions):
            slopes = self._gaussian_slopes(outputs, rows, count, gradient.log_std, sums)
        else:
            slopes = self._categorical_slopes(outputs, actions, rows, count, sums)
        errors = values - rows.returns
        if sums is not None:
            sums[1] = errors @ errors
        errors *= np.float32(2 * self._settings.vf_coef / count)
        self._joint.backward(inputs, slopes, errors[None], gradient)

    def descend(self, slots: Floats, count: int, learning_rate: float, *, told: bool) -> Figures | None:
        if len(slots) == 1:
            self._total[:] = slots[0]
        else:
            np.add(slots[0], slots[1], out=self._total)
            for part in slots[2:]:
                self._total += part
        gradient = self._total[:-SUMS]
        norm = float(np.sqrt(gradient @ gradient))
        figures = self._figures(self._total[-SUMS:] / np.float32(count), norm) if told else None
        # Written so that a NaN goes through and is found, instead of comparing as "small enough".
        if not norm + 1e-6 <= self._settings.max_grad_norm:
            gradient *= np.float32(self._settings.max_grad_norm / (norm + 1e-6))
        self._descend(gradient, learning_rate)
        return figures

    def finish(self) -> None:
        self._policy.flat[:] = self._joint.plain(self._joint.flat)

    def moments(self) -> Moments:
        return Moments(self._joint.plain(self.first), self._joint.plain(self.second), self.steps)

    def restore(self, moments: Moments) -> None:
        self._joint.read(self._policy.flat)
        self.first[:] = self._joint.arranged(moments.first)
        self.second[:] = self._joint.arranged(moments.second)
        self.steps = moments.steps

    def _views_of(self, slot: Floats) -> Matrices:
        """Return the matrices of a gradient; there are few slots, so each is cut once."""
        place = slot.ctypes.data
        found = self._cut.get(place)
        if found is None:
            found = self._cut[place] = self._joint.views(slot[:-SUMS])
        return found

    def _categorical_slopes(
        self, outputs: Floats, actions: DiscreteActions, rows: Batch, count: int, sums: Floats | None
    ) -> Floats:
        groups = _categorical(outputs, actions, rows.chosen)
        log_ratio = _sum([_picked(log_p, taken) for log_p, _, taken in groups]) - rows.old
        slope = _objective_slope(log_ratio, rows.advantages, self._settings.clip_range, count, sums)
        entropy_share = np.float32(self._settings.ent_coef / count)
        slopes: list[Floats] = []
        for log_p, p, taken in groups:
            part = p * -slope
            part[taken, np.arange(len(taken))] += slope
            if entropy_share > 0 or sums is not None:
                entropies = -np.einsum("ij,ij->j", p, log_p)
                part += (log_p + entropies) * p * entropy_share
                if sums is not None:
                    sums[2] += entropies.sum()
            slopes.append(part)
        return slopes[0] if len(slopes) == 1 else np.concatenate(slopes)

    def _gaussian_slopes(
        self, means: Floats, rows: Batch, count: int, spread_slope: Floats | None, sums: Floats | None
    ) -> Floats:
        log_std = self._spread()
        log_probability, scaled = _gaussian(means, log_std, rows.chosen)
        slope = _objective_slope(log_probability - rows.old, rows.advantages, self._settings.clip_range, count, sums)
        if sums is not None:
            sums[2] = len(slope) * float((log_std + (0.5 + 0.5 * LOG_2PI)).sum())
        assert spread_slope is not None
        np.dot(scaled * scaled - 1, slope, out=spread_slope)
        spread_slope -= np.float32(self._settings.ent_coef * len(slope) / count)
        scaled *= np.exp(-log_std)[:, None]
        scaled *= slope
        return scaled

    def _spread(self) -> Floats:
        assert self._joint.weights.log_std is not None
        return self._joint.weights.log_std

    def _figures(self, means: Floats, norm: float) -> Figures:
        settings = self._settings
        objective, value_loss, entropy, kl, clipped = means.tolist()
        loss = -objective + settings.vf_coef * value_loss - settings.ent_coef * entropy
        return Figures(loss, -objective, value_loss, entropy, kl, clipped, norm)

    def _descend(self, gradient: Floats, learning_rate: float) -> None:
        """Adam (Kingma & Ba 2015), in place."""
        self.steps += 1
        first, second = self.first, self.second
        change, root = self._scratch
        np.subtract(gradient, first, out=change)
        change *= np.float32(1 - ADAM_BETA_1)
        first += change
        np.multiply(gradient, gradient, out=root)
        root *= np.float32(1 - ADAM_BETA_2)
        second *= np.float32(ADAM_BETA_2)
        second += root
        np.sqrt(second, out=root)
        root *= np.float32(1 / np.sqrt(1 - ADAM_BETA_2**self.steps))
        root += np.float32(ADAM_EPSILON)
        np.divide(first, root, out=change)
        change *= np.float32(learning_rate / (1 - ADAM_BETA_1**self.steps))
        self._joint.flat -= change


def _objective_slope(
    log_ratio: Floats, advantages: Floats, clip_range: float, count: int, sums: Floats | None
) -> Floats:
    """Return the slope of the loss by log π(a|s) of each row, from the clipped objective."""
    ratio = np.exp(log_ratio)
    unclipped = ratio * advantages
    clipped = np.minimum(np.maximum(ratio, np.float32(1 - clip_range)), np.float32(1 + clip_range))
    clipped *= advantages
    if sums is not None:
        sums[0] = np.minimum(unclipped, clipped).sum()
        sums[2] = 0.0
        sums[3] = (ratio - 1 - log_ratio).sum()
        sums[4] = np.count_nonzero(np.abs(ratio - 1) > clip_range)
    # Where the clipped term is the smaller one it is flat; elsewhere (NaN included) d(r Â)/d log π = r Â.
    unclipped[clipped < unclipped] = 0
    unclipped *= np.float32(-1 / count)
    return unclipped


def _categorical(
    outputs: Floats, actions: DiscreteActions, chosen: NDArray[Any]
) -> list[tuple[Floats, Floats, NDArray[Any]]]:
    """Return log π and π of all choices, and the choice taken, for each group of choices."""
    groups: list[tuple[Floats, Floats, NDArray[Any]]] = []
    for index, logits in enumerate(actions.groups(outputs)):
        log_p = logits - logits.max(axis=0)
        p = np.exp(log_p)
        total = p.sum(axis=0)
        p /= total
        log_p -= np.log(total)
        groups.append((log_p, p, chosen[index]))
    return groups


def _picked(log_p: Floats, taken: NDArray[Any]) -> Floats:
    return log_p[taken, np.arange(len(taken))]


def _sum(parts: list[Floats]) -> Floats:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _gaussian(means: Floats, log_std: Floats, chosen: Floats) -> tuple[Floats, Floats]:
    """Return log π(a|s), and how many spreads each action lies from its mean."""
    scaled = (chosen - means) * np.exp(-log_std)[:, None]
    constant = np.float32(float(log_std.sum()) + 0.5 * LOG_2PI * len(log_std))
    return np.einsum("ij,ij->j", scaled, scaled) * np.float32(-0.5) - constant, scaled
