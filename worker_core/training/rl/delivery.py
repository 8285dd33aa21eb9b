"""Writes the files of a finished session one after the other, each whole before the next begins."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from worker_core.training.files import JobFolder
from worker_core.training.rl import results
from worker_core.training.rl.curves import Curves, draw_curves
from worker_core.training.rl.ppo import PpoLearner
from worker_core.training.rl.spaces import Observations
from worker_core.wire.frames import ArtifactReady
from worker_core.wire.plan import Plan

LEARNING_CURVES = "learning_curves.png"


@dataclass(frozen=True)
class Trained:
    """What training has left in memory."""

    learner: PpoLearner
    observations: Observations
    compared: results.Compared
    metrics: Mapping[str, float]
    """The last ones of training."""
    curves: Curves
    device: str
    train_seconds: float
    lineage: Mapping[str, object]


def deliver(plan: Plan, spec_sha256: str, folder: JobFolder, trained: Trained) -> Iterator[ArtifactReady]:
    """Write each result and yield what to announce of it."""
    learner, compared = trained.learner, trained.compared
    lineage = {**msgspec.to_builtins(folder.read_identity()), **trained.lineage}
    metrics = {
        **compared.initial.metrics(results.benchmark_name(plan, "initial/")),
        **compared.final.metrics(results.benchmark_name(plan)),
        **trained.metrics,
    }
    described = results.policy_description(plan, spec_sha256, learner, trained.observations, learner.policy.actions)
    card = results.model_card(plan, spec_sha256, folder.code, trained.device, metrics, lineage)
    contents: dict[str, bytes | dict[str, object]] = {
        "policy.safetensors": results.policy_weights(learner),
        "policy.json": described,
        "model_card.json": card,
        "benchmark.json": results.benchmark_report(plan, compared, trained.train_seconds),
        "benchmark.csv": results.benchmark_table(plan, compared),
        LEARNING_CURVES: _picture(plan, trained),
    }
    for file, content in contents.items():
        yield results.write_result(folder.results, file, content)


def _picture(plan: Plan, trained: Trained) -> bytes:
    compared = trained.compared
    levels = {
        "trained": compared.final.aggregate.mean,
        "untrained": compared.initial.aggregate.mean,
        "chance": compared.random.aggregate.mean,
    }
    return draw_curves(f"{plan.name}: {plan.skill.name}", trained.curves.points(), levels)
