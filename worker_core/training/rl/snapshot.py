"""Everything that continues a session exactly, as arrays and plain values, and back again."""

import random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from worker_core.training.checkpoints import Arrays, State
from worker_core.training.rl.ppo import PpoLearner
from worker_core.training.rl.simulators import EpisodeEnd, Simulators

_MOMENTS = ("exp_avg", "exp_avg_sq")


def take_learner(learner: PpoLearner) -> tuple[Arrays, State]:
    """Return weights, optimiser and running statistics."""
    policy = learner.policy
    arrays = {f"policy.{name}": _array(tensor) for name, tensor in policy.tensors.items()}
    adam = learner.optimiser.state.get(policy.flat, {})
    for name in _MOMENTS:
        arrays[f"adam.{name}"] = _array(adam.get(name, torch.zeros_like(policy.flat)))
    if learner.observed is not None:
        arrays.update(learner.observed.arrays("observed"))
    if learner.reward_scale is not None:
        arrays.update(learner.reward_scale.arrays())
    return arrays, {"adam_steps": int(adam["step"]) if adam else 0, "passes": learner.updates}


def restore_learner(learner: PpoLearner, arrays: Arrays, state: State) -> None:
    """Bring weights, optimiser and running statistics back."""
    policy = learner.policy
    with torch.no_grad():
        for name, tensor in policy.tensors.items():
            tensor.copy_(torch.from_numpy(arrays[f"policy.{name}"]))  # pyright: ignore[reportUnknownMemberType]
    if state["adam_steps"]:
        moments = {name: torch.empty_like(policy.flat) for name in _MOMENTS}
        for name, tensor in moments.items():
            tensor.copy_(torch.from_numpy(arrays[f"adam.{name}"]))  # pyright: ignore[reportUnknownMemberType]
        steps = torch.tensor(float(state["adam_steps"]), device=policy.flat.device)
        learner.optimiser.state[policy.flat] = {"step": steps, **moments}
    if learner.observed is not None:
        learner.observed.restore("observed", arrays)
    if learner.reward_scale is not None:
        learner.reward_scale.restore(arrays)
    learner.updates = int(state["passes"])


def take_episodes(simulators: Simulators) -> list[list[object]]:
    """Return the recent training episodes."""
    return [[end.total, end.length, end.success] for end in simulators.recent]


def restore_episodes(simulators: Simulators, saved: list[list[Any]]) -> None:
    """Bring the recent training episodes back."""
    simulators.recent.clear()
    simulators.recent.extend(EpisodeEnd(float(total), int(length), success) for total, length, success in saved)


def take_generators(rng: np.random.Generator) -> tuple[Arrays, State]:
    """Return every random generator of this process: ours, and those that the user's code may use."""
    version, words, gauss = random.getstate()
    legacy: Any = np.random.get_state(legacy=False)
    arrays = {
        "generator.torch": _array(torch.get_rng_state()),
        "generator.python": np.array(words, np.uint32),
        "generator.numpy": np.asarray(legacy["state"]["key"]),
    }
    numpy_rest = [int(legacy["state"]["pos"]), int(legacy["has_gauss"]), float(legacy["gauss"])]
    return arrays, {"own": rng.bit_generator.state, "python": [version, gauss], "numpy": numpy_rest}


def restore_generators(rng: np.random.Generator, arrays: Arrays, state: State) -> None:
    """Bring every random generator back."""
    rng.bit_generator.state = state["own"]
    torch.set_rng_state(torch.from_numpy(arrays["generator.torch"]))  # pyright: ignore[reportUnknownMemberType]
    version, gauss = state["python"]
    random.setstate((version, tuple(int(word) for word in arrays["generator.python"]), gauss))
    position, has_gauss, legacy_gauss = state["numpy"]
    np.random.set_state(("MT19937", arrays["generator.numpy"], position, has_gauss, legacy_gauss))


def seed_generators(seed: int) -> np.random.Generator:
    """Seed what the user's code may use, and return our own generator."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))


def simulator_seeds(seed: int, count: int, step: int = 0) -> list[int]:
    """Return one seed for each simulator; ``step`` sets apart the seeds that an inexact resume begins with."""
    return [int(np.random.SeedSequence(seed, spawn_key=(1, i, step)).generate_state(1)[0]) for i in range(count)]


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    # A copy: on a CPU the array would share the weights' memory, and the weights go on changing.
    return tensor.detach().cpu().numpy().copy()
