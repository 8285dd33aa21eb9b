"""Which device learns, with which back end and how many threads."""

import itertools
import os
from typing import TYPE_CHECKING

from worker_core.training.rl.descent import Descent, NumpyDescent
from worker_core.training.rl.joint import Joint
from worker_core.training.rl.policy import Policy
from worker_core.wire.plan import Plan
from worker_core.wire.problems import FieldError
from worker_core.wire.spec import BadSpec

if TYPE_CHECKING:
    import torch

SMALL = 8_000_000
"""Multiplications of the largest layer for one minibatch: below this the hand-written back end on one thread of the CPU
is quicker than torch on any device, because the rest is overhead."""


def choose_descent(plan: Plan, policy: Policy, joint: Joint) -> tuple[Descent, str]:
    """Return the back end for this plan and the name of its device; torch is imported only where it is needed."""
    if plan.device in ("auto", "cpu") and largest_layer(plan, policy) < SMALL:
        return NumpyDescent(policy, joint, plan.skill.ppo), "cpu"
    import torch

    from worker_core.training.rl.descent_torch import TorchDescent

    device = _find_device(plan.device)
    torch.set_num_threads(usable_cores() if device.type == "cpu" else 1)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return TorchDescent(policy, joint, plan.skill.ppo, device), name


def largest_layer(plan: Plan, policy: Policy) -> int:
    """Return the multiplications of the largest layer for one minibatch."""
    widths = (policy.actor[0][0].shape[1], *plan.skill.ppo.hidden, policy.actions.outputs)
    return plan.skill.ppo.minibatch_size * max(a * b for a, b in itertools.pairwise(widths))


def _find_device(wanted: str) -> "torch.device":
    import torch

    if wanted == "cuda" and os.environ.get("CUDA_VISIBLE_DEVICES"):
        # The worker gave a GPU to this job. If it cannot be used, the driver's own words say more than "not there".
        torch.cuda.init()
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    there = [name for name, present in available.items() if present]
    if wanted != "auto" and wanted not in there:
        message = f"{wanted!r} is not on this worker; it has {', '.join(there)}"
        raise BadSpec((FieldError(field="training.device", message=message),))
    return torch.device(there[0] if wanted == "auto" else wanted)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
