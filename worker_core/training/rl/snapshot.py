"""Everything that continues a session exactly, as arrays and plain values, and back again."""

import random
import sys
from typing import Any

import numpy as np

from worker_core.training.checkpoints import Arrays, State
from worker_core.training.rl.descent import Moments
from worker_core.training.rl.ppo import PpoLearner


def take_learner(learner: PpoLearner) -> tuple[Arrays, State]:
    """Return weights, optimiser and running statistics."""
    arrays: Arrays = {f"policy.{name}": array for name, array in learner.policy.arrays.items()}
    first, second, steps = learner.descent.moments()
    arrays |= {"adam.first": first, "adam.second": second}
    if learner.observed is not None:
        arrays.update(learner.observed.arrays("observed"))
    if learner.reward_scale is not None:
        arrays.update(learner.reward_scale.arrays())
    return arrays, {"adam_steps": steps, "passes": learner.passes}


def restore_learner(learner: PpoLearner, arrays: Arrays, state: State) -> None:
    """Bring weights, optimiser and running statistics back."""
    for name, array in learner.policy.arrays.items():
        array[...] = arrays[f"policy.{name}"]
    learner.descent.restore(Moments(arrays["adam.first"], arrays["adam.second"], int(state["adam_steps"])))
    if learner.observed is not None:
        learner.observed.restore("observed", arrays)
    if learner.reward_scale is not None:
        learner.reward_scale.restore(arrays)
    learner.passes = int(state["passes"])


def take_generators() -> tuple[Arrays, State]:
    """Return every random generator of this process that the user's code may use."""
    version, words, gauss = random.getstate()
    legacy: Any = np.random.get_state(legacy=False)
    arrays: Arrays = {
        "generator.python": np.array(words, np.uint32),
        "generator.numpy": np.asarray(legacy["state"]["key"]),
    }
    if torch := sys.modules.get("torch"):
        arrays["generator.torch"] = torch.get_rng_state().numpy()
    numpy_rest = [int(legacy["state"]["pos"]), int(legacy["has_gauss"]), float(legacy["gauss"])]
    return arrays, {"python": [version, gauss], "numpy": numpy_rest}


def restore_generators(arrays: Arrays, state: State) -> None:
    """Bring every random generator back."""
    version, gauss = state["python"]
    random.setstate((version, tuple(int(word) for word in arrays["generator.python"]), gauss))
    position, has_gauss, legacy_gauss = state["numpy"]
    np.random.set_state(("MT19937", arrays["generator.numpy"], position, has_gauss, legacy_gauss))
    if "generator.torch" in arrays:
        import torch

        torch.set_rng_state(torch.from_numpy(arrays["generator.torch"]))  # pyright: ignore[reportUnknownMemberType]


def seed_generators(seed: int) -> None:
    """Seed what the user's code may use; torch only where that code has imported it."""
    random.seed(seed)
    np.random.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


def first_weights(seed: int) -> np.random.Generator:
    """Return the generator of the untrained policy."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))


def simulator_seeds(seed: int, count: int, step: int = 0) -> list[int]:
    """Return one seed for each simulator; ``step`` sets apart the seeds that an inexact resume begins with."""
    return [int(np.random.SeedSequence(seed, spawn_key=(1, i, step)).generate_state(1)[0]) for i in range(count)]
