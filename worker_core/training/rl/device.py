"""Which device learns, and with how many threads."""

import itertools
import os

import torch

from worker_core.wire.plan import Plan
from worker_core.wire.problems import FieldError
from worker_core.wire.spec import BadSpec

_ONE_THREAD_BELOW = 8_000_000
"""Multiplications of one layer pass: below this a second thread costs more than it brings."""


def choose_device(plan: Plan) -> torch.device:
    """Return the device that the plan asks for; ``auto`` is CUDA, else MPS, else the CPU."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if plan.device == "auto":
        return torch.device(next(name for name, there in available.items() if there))
    if not available[plan.device]:
        message = (
            f"{plan.device!r} is not on this worker; it has {', '.join(n for n, there in available.items() if there)}"
        )
        raise BadSpec((FieldError(field="training.device", message=message),))
    return torch.device(plan.device)


def choose_threads(plan: Plan, observation_size: int) -> int:
    """Return how many threads learning uses: one for small networks, where more only wait for each other."""
    widths = (observation_size, *plan.skill.ppo.hidden)
    largest = max((a * b for a, b in itertools.pairwise(widths)), default=0)
    if largest * plan.skill.ppo.minibatch_size < _ONE_THREAD_BELOW:
        return 1
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def device_name(device: torch.device) -> str:
    """Return the device as it is told in a model card."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
