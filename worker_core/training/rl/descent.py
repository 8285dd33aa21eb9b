"""One minibatch step down PPO's loss, worked out by hand in NumPy.

For perceptrons of a few thousand weights autograd costs several times the arithmetic itself, so these gradients are
written down. :mod:`worker_core.training.rl.descent_torch` does the same with torch, for larger networks and for
GPUs; a test keeps the two in agreement.

The loss, in the words of :mod:`worker_core.training.rl.ppo`, of a minibatch of N rows:
L = -mean(min(r Â, clip(r, 1±ε) Â)) + c_v mean((R - V)²) - c_e mean(H), with r = exp(log π(a|s) - log π_old(a|s)).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from worker_core.training.rl.policy import Layer, Policy, forward, layers_of
from worker_core.training.rl.spaces import BoxActions, DiscreteActions, Floats
from worker_core.wire.spec import Ppo

ADAM_BETA_1, ADAM_BETA_2, ADAM_EPSILON = 0.9, 0.999, 1e-5
LOG_2PI = float(np.log(2 * np.pi))


class Batch(NamedTuple):
    """Rows of a rollout, as arrays or torch tensors."""

    observations: Any
    chosen: Any
    old: Any
    """log π_old(a|s)"""
    advantages: Any
    returns: Any


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
    """What Adam remembers: first and second moments, and how many steps it took."""

    first: Floats
    second: Floats
    steps: int


class Descent(Protocol):
    """What PPO needs from a back end; all of it works on the weights of one :class:`Policy`."""

    def load(self, batch: Batch) -> Batch:
        """Bring the rows of a rollout to where they are needed."""
        ...

    def values(self, observations: Floats) -> Floats:
        """Return V(s) of each row."""
        ...

    def log_probability(self, observations: Floats, chosen: NDArray[Any]) -> Floats:
        """Return log π(a|s) of each row."""
        ...

    def step(self, rows: Batch, learning_rate: float, *, told: bool) -> Figures | None:
        """Take one step of Adam; figures are worked out only when ``told``."""
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
    """The hand-written back end."""

    def __init__(self, policy: Policy, settings: Ppo) -> None:
        self._policy, self._settings = policy, settings
        self.gradient: Floats = np.zeros_like(policy.flat)
        self._norm = 0.0
        """Length of the gradient before it is clipped."""
        views = policy.views(self.gradient)
        self._actor, self._critic = layers_of("actor", views), layers_of("critic", views)
        self._log_std = views.get("log_std")
        self._adam = Moments(np.zeros_like(policy.flat), np.zeros_like(policy.flat), 0)
        self._scratch: tuple[Floats, Floats] = np.empty_like(policy.flat), np.empty_like(policy.flat)

    def load(self, batch: Batch) -> Batch:
        return batch

    def values(self, observations: Floats) -> Floats:
        return forward(observations, self._policy.critic)[:, 0]

    def log_probability(self, observations: Floats, chosen: NDArray[Any]) -> Floats:
        outputs = forward(observations, self._policy.actor)
        actions = self._policy.actions
        if isinstance(actions, BoxActions):
            return _gaussian(outputs, self._spread(), chosen)[0]
        return np.sum([_picked(log_p, taken) for log_p, taken in _categorical(outputs, actions, chosen)], axis=0)

    def step(self, rows: Batch, learning_rate: float, *, told: bool) -> Figures | None:
        figures = self.differentiate(rows, told=told)
        self._clip()
        self._descend(learning_rate)
        return figures

    def finish(self) -> None:
        """Nothing to do: the policy's own memory was changed."""

    def moments(self) -> Moments:
        return self._adam

    def restore(self, moments: Moments) -> None:
        self._adam = Moments(moments.first.copy(), moments.second.copy(), moments.steps)

    def differentiate(self, rows: Batch, *, told: bool) -> Figures | None:
        """Fill ``gradient`` with dL/dθ of these rows."""
        actor_inputs: list[Floats] = []
        critic_inputs: list[Floats] = []
        outputs = forward(rows.observations, self._policy.actor, actor_inputs)
        values = forward(rows.observations, self._policy.critic, critic_inputs)[:, 0]
        if isinstance(self._policy.actions, BoxActions):
            slope, told_policy = self._gaussian_slope(outputs, rows, told=told)
        else:
            slope, told_policy = self._categorical_slope(outputs, self._policy.actions, rows, told=told)
        _backward(slope, actor_inputs, self._policy.actor, self._actor)
        error = cast(Floats, values - rows.returns)
        value_slope = error * np.float32(2 * self._settings.vf_coef / len(error))
        _backward(value_slope[:, None], critic_inputs, self._policy.critic, self._critic)
        self._norm = float(np.sqrt(self.gradient @ self.gradient))
        return None if told_policy is None else self._figures(told_policy, float(np.mean(error * error)))

    def _categorical_slope(
        self, outputs: Floats, actions: DiscreteActions, rows: Batch, *, told: bool
    ) -> tuple[Floats, "_Surrogate | None"]:
        groups = _categorical(outputs, actions, rows.chosen)
        log_probability = _picked(*groups[0])
        for group in groups[1:]:
            log_probability = log_probability + _picked(*group)
        surrogate = _Surrogate(log_probability - rows.old, rows.advantages, self._settings.clip_range)
        entropy_share = np.float32(self._settings.ent_coef / len(outputs))
        entropy, slopes = 0.0, list[Floats]()
        for log_p, taken in groups:
            p = np.exp(log_p)
            slope = p * -surrogate.slope[:, None]
            slope[np.arange(len(taken)), taken] += surrogate.slope
            if entropy_share > 0 or told:
                row_entropy = -np.einsum("ij,ij->i", p, log_p)
                slope += (log_p + row_entropy[:, None]) * p * entropy_share
                entropy += float(row_entropy.mean())
            slopes.append(slope)
        surrogate.entropy = entropy
        return slopes[0] if len(slopes) == 1 else np.concatenate(slopes, axis=1), surrogate if told else None

    def _gaussian_slope(self, means: Floats, rows: Batch, *, told: bool) -> tuple[Floats, "_Surrogate | None"]:
        log_std = self._spread()
        log_probability, scaled = _gaussian(means, log_std, rows.chosen)
        surrogate = _Surrogate(log_probability - rows.old, rows.advantages, self._settings.clip_range)
        surrogate.entropy = float((log_std + 0.5 + 0.5 * LOG_2PI).sum())
        assert self._log_std is not None
        np.matmul(surrogate.slope, scaled * scaled - 1, out=self._log_std)
        self._log_std -= np.float32(self._settings.ent_coef)
        return surrogate.slope[:, None] * scaled * np.exp(-log_std), surrogate if told else None

    def _spread(self) -> Floats:
        assert self._policy.log_std is not None
        return self._policy.log_std

    def _figures(self, surrogate: "_Surrogate", value_loss: float) -> Figures:
        settings = self._settings
        loss = surrogate.loss() + settings.vf_coef * value_loss - settings.ent_coef * surrogate.entropy
        entropy, kl, clip_fraction = surrogate.entropy, surrogate.kl(), surrogate.clip_fraction()
        return Figures(loss, surrogate.loss(), value_loss, entropy, kl, clip_fraction, self._norm)

    def _clip(self) -> None:
        norm = self._norm
        # Written so that a NaN goes through and is found, instead of comparing as "small enough".
        if not norm + 1e-6 <= self._settings.max_grad_norm:
            self.gradient *= np.float32(self._settings.max_grad_norm / (norm + 1e-6))

    def _descend(self, learning_rate: float) -> None:
        """Adam (Kingma & Ba 2015), in place."""
        first, second, steps = self._adam
        steps += 1
        change, root = self._scratch
        np.subtract(self.gradient, first, out=change)
        change *= np.float32(1 - ADAM_BETA_1)
        first += change
        np.multiply(self.gradient, self.gradient, out=root)
        root *= np.float32(1 - ADAM_BETA_2)
        second *= np.float32(ADAM_BETA_2)
        second += root
        np.sqrt(second, out=root)
        root *= np.float32(1 / np.sqrt(1 - ADAM_BETA_2**steps))
        root += np.float32(ADAM_EPSILON)
        np.divide(first, root, out=change)
        change *= np.float32(learning_rate / (1 - ADAM_BETA_1**steps))
        self._policy.flat -= change
        self._adam = Moments(first, second, steps)


class _Surrogate:
    """The clipped objective of a minibatch, and its slope by log π(a|s)."""

    def __init__(self, log_ratio: Floats, advantages: Floats, clip_range: float) -> None:
        self._log_ratio, self._clip_range = log_ratio, clip_range
        self._ratio = np.exp(log_ratio)
        unclipped = self._ratio * advantages
        clipped = np.clip(self._ratio, 1 - clip_range, 1 + clip_range) * advantages
        # Where the clipped term is the smaller one it is flat; elsewhere (NaN included) d(r Â)/d log π = r Â.
        self.slope: Floats = np.where(clipped < unclipped, np.float32(0), unclipped) * np.float32(-1 / len(log_ratio))
        self._objective = np.minimum(unclipped, clipped)
        self.entropy = 0.0

    def loss(self) -> float:
        return -float(self._objective.mean())

    def kl(self) -> float:
        return float(np.mean(self._ratio - 1 - self._log_ratio))

    def clip_fraction(self) -> float:
        return float(np.mean(np.abs(self._ratio - 1) > self._clip_range))


def _categorical(outputs: Floats, actions: DiscreteActions, chosen: NDArray[Any]) -> list[tuple[Floats, NDArray[Any]]]:
    """Return log π of all choices and the choice taken, for each group of choices."""
    groups: list[tuple[Floats, NDArray[Any]]] = []
    for column, logits in enumerate(actions.groups(outputs)):
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        groups.append((log_p, chosen[:, column]))
    return groups


def _picked(log_p: Floats, taken: NDArray[Any]) -> Floats:
    return log_p[np.arange(len(taken)), taken]


def _gaussian(means: Floats, log_std: Floats, chosen: Floats) -> tuple[Floats, Floats]:
    """Return log π(a|s), and how many spreads each action lies from its mean."""
    scaled = (chosen - means) * np.exp(-log_std)
    return (scaled * scaled * -0.5 - log_std - np.float32(0.5 * LOG_2PI)).sum(axis=1), scaled


def _backward(slope: Floats, inputs: list[Floats], layers: Sequence[Layer], gradients: Sequence[Layer]) -> None:
    """Fill in the gradients of a perceptron whose outputs have this slope."""
    for index in range(len(layers) - 1, -1, -1):
        weight_gradient, bias_gradient = gradients[index]
        np.matmul(slope.T, inputs[index], out=weight_gradient)
        slope.sum(axis=0, out=bias_gradient)
        if index:
            slope = slope @ layers[index][0]
            squashed = inputs[index] * inputs[index]
            np.subtract(1, squashed, out=squashed)
            slope *= squashed
