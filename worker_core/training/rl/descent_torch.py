"""One minibatch step down PPO's loss with torch: for large networks, and for CUDA and MPS.

The loss is that of :mod:`worker_core.training.rl.descent`, worked out by autograd. Importing this module imports torch,
which takes seconds, so only a session that needs it does.
"""

from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from worker_core.training.rl.descent import ADAM_BETA_1, ADAM_BETA_2, ADAM_EPSILON, LOG_2PI, Batch, Figures, Moments
from worker_core.training.rl.joint import Joint
from worker_core.training.rl.policy import Policy
from worker_core.training.rl.spaces import BoxActions, Floats
from worker_core.wire.spec import Ppo

_ROWS_AT_ONCE = 32_768
_Layer = tuple[Tensor, Tensor]


class TorchDescent:
    """The back end that leaves gradients to torch."""

    slot = 0

    def __init__(self, policy: Policy, joint: Joint, settings: Ppo, device: torch.device) -> None:
        self._policy, self._joint, self._settings = policy, joint, settings
        self._figures: Tensor | None = None
        self._flat = _tensor(policy.flat).to(device, copy=True)
        self.gradient = torch.zeros_like(self._flat)
        self._flat.grad = self.gradient
        self._norm = torch.zeros((), device=device)
        """Length of the gradient before it is clipped; it stays on the device, so that nothing waits for it."""
        self._actor, self._critic, self._log_std = self._leaves()
        betas = (ADAM_BETA_1, ADAM_BETA_2)
        self._adam = torch.optim.Adam(
            [self._flat], lr=settings.learning_rate, betas=betas, eps=ADAM_EPSILON, fused=True
        )

    def load(self, batch: Batch) -> Batch:
        return Batch(*(_tensor(column).to(self._flat.device) for column in batch))

    def values(self, inputs: Floats) -> Floats:
        with torch.no_grad():
            parts = [_perceptron(rows, self._critic)[:, 0] for rows in self._chunks(inputs[:-1].T)]
            return torch.cat(parts).cpu().numpy()

    def log_probability(self, inputs: Floats, chosen: NDArray[Any]) -> Floats:
        with torch.no_grad():
            pairs = zip(self._chunks(inputs[:-1].T), self._chunks(chosen.T), strict=True)
            parts = [self._judge(_perceptron(rows, self._actor), taken)[0] for rows, taken in pairs]
            return torch.cat(parts).cpu().numpy()

    def descend(self, slots: Floats, count: int, learning_rate: float, *, told: bool) -> Figures | None:
        self.gradient.mul_(torch.clamp(self._settings.max_grad_norm / (self._norm + 1e-6), max=1.0))
        self._adam.param_groups[0]["lr"] = learning_rate
        self._adam.step()  # pyright: ignore[reportUnknownMemberType]
        if not told or self._figures is None:
            return None
        return Figures(*cast("list[float]", self._figures.tolist()))  # pyright: ignore[reportUnknownMemberType]

    def finish(self) -> None:
        self._policy.flat[:] = self._flat.cpu().numpy()
        self._joint.read(self._policy.flat)

    def moments(self) -> Moments:
        saved = self._adam.state.get(self._flat)
        if not saved:
            return Moments(np.zeros_like(self._policy.flat), np.zeros_like(self._policy.flat), 0)
        return Moments(saved["exp_avg"].cpu().numpy(), saved["exp_avg_sq"].cpu().numpy(), int(saved["step"]))

    def restore(self, moments: Moments) -> None:
        device = self._flat.device
        self._joint.read(self._policy.flat)
        with torch.no_grad():
            self._flat.copy_(_tensor(self._policy.flat))
        self._adam.state[self._flat] = {
            "step": torch.tensor(float(moments.steps), device=device),
            "exp_avg": _tensor(moments.first).to(device, copy=True),
            "exp_avg_sq": _tensor(moments.second).to(device, copy=True),
        }

    def differentiate(self, rows: Batch, count: int, slot: Floats, *, told: bool) -> None:
        """Fill ``gradient`` with dL/dθ of these rows, which are always a whole minibatch."""
        settings, observations = self._settings, rows.inputs[:-1].T
        log_probability, entropy = self._judge(_perceptron(observations, self._actor), rows.chosen.T)
        log_ratio = log_probability - rows.old
        ratio = log_ratio.exp()
        clipped = torch.clamp(ratio, 1 - settings.clip_range, 1 + settings.clip_range)
        policy_loss = -torch.minimum(ratio * rows.advantages, clipped * rows.advantages).mean()
        value_loss = (rows.returns - _perceptron(observations, self._critic)[:, 0]).square().mean()
        loss = policy_loss + settings.vf_coef * value_loss - settings.ent_coef * entropy
        self.gradient.zero_()
        torch.autograd.backward(loss)
        self._norm = self.gradient.square().sum().sqrt()
        if not told:
            return
        with torch.no_grad():
            kl = (ratio - 1 - log_ratio).mean()
            clip_fraction = ((ratio - 1).abs() > settings.clip_range).float().mean()
            self._figures = torch.stack((loss, policy_loss, value_loss, entropy, kl, clip_fraction, self._norm))

    def _judge(self, outputs: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return log π(a|s) of each row, and the mean entropy."""
        actions = self._policy.actions
        if isinstance(actions, BoxActions):
            assert self._log_std is not None
            scaled = (chosen - outputs) * torch.exp(-self._log_std)
            log_probability = (-0.5 * scaled.square() - self._log_std - 0.5 * LOG_2PI).sum(dim=1)
            return log_probability, (self._log_std + 0.5 + 0.5 * LOG_2PI).sum()
        log_probability = entropy = torch.zeros((), device=outputs.device)
        for column, logits in enumerate(torch.split(outputs, actions.choices, dim=1)):
            log_p = logits.log_softmax(dim=1)
            log_probability = log_probability + log_p.gather(1, chosen[:, column : column + 1])[:, 0]
            entropy = entropy - (log_p.exp() * log_p).sum(dim=1).mean()
        return log_probability, entropy

    def _leaves(self) -> tuple[list[_Layer], list[_Layer], Tensor | None]:
        """Return the layers as leaves of autograd that are views of the flat vector, as their gradients are."""
        leaves: dict[str, Tensor] = {}
        start = 0
        for name, shape in self._policy.shapes.items():
            end = start + int(np.prod(shape))
            leaf = self._flat[start:end].view(shape).requires_grad_()
            leaf.grad = self.gradient[start:end].view(shape)
            leaves[name] = leaf
            start = end

        def layers(network: str) -> list[_Layer]:
            count = sum(1 for name in leaves if name.startswith(f"{network}.")) // 2
            return [(leaves[f"{network}.{i}.weight"], leaves[f"{network}.{i}.bias"]) for i in range(count)]

        return layers("actor"), layers("critic"), leaves.get("log_std")

    def _chunks(self, rows: NDArray[Any]) -> list[Tensor]:
        return [chunk.to(self._flat.device) for chunk in torch.split(_tensor(rows), _ROWS_AT_ONCE)]


def _perceptron(rows: Tensor, layers: list[_Layer]) -> Tensor:
    for weight, bias in layers[:-1]:
        rows = torch.tanh(linear(rows, weight, bias))
    weight, bias = layers[-1]
    return linear(rows, weight, bias)


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))  # pyright: ignore[reportUnknownMemberType]
