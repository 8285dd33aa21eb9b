"""What a finished session leaves: the policy, a description to play it by, its benchmark and its model card."""

import csv
import hashlib
import io
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec
from safetensors.numpy import save

from worker_core.training.files import write_whole
from worker_core.training.rl.benchmark import BenchmarkResult
from worker_core.training.rl.ppo import PpoLearner
from worker_core.training.rl.spaces import Actions, Observations
from worker_core.wire.codec import encode, number_to_wire
from worker_core.wire.frames import ArtifactReady
from worker_core.wire.plan import Plan

SCENARIO = "reset"
"""The one scenario of the short form: an episode starts where ``reset`` starts it."""
_PACKAGES = ("torch", "numpy", "gymnasium", "safetensors")


def benchmark_name(plan: Plan, which: str = "") -> str:
    """Return what stands before the metrics of a benchmark; ``which`` is empty for that of the trained policy."""
    return f"benchmark/{which}{plan.skill.name}/{SCENARIO}"


def policy_weights(learner: PpoLearner) -> bytes:
    """Return the actor's weights as a safetensors file."""
    own = {name: array for name, array in learner.policy.arrays.items() if not name.startswith("critic.")}
    return save(own, {"schema": "stoker.policy/1"})


def policy_description(
    plan: Plan, spec_sha256: str, learner: PpoLearner, observations: Observations, actions: Actions
) -> dict[str, object]:
    """Return how the weights become actions: architecture, normaliser, spaces."""
    observed = learner.observed
    normaliser = None
    if observed is not None:
        normaliser = {
            "mean": observed.mean.tolist(),
            "variance": observed.variance.tolist(),
            "epsilon": 1e-8,
            "clip": 10.0,
        }
    return {
        "schema": "stoker.policy/1",
        "weights": "policy.safetensors",
        "layers": len(learner.policy.actor),
        "hidden": list(plan.skill.ppo.hidden),
        "activation": "tanh",
        "output": "action mean" if actions.continuous else "logits",
        "normaliser": normaliser,
        "observation_space": observations.describe(),
        "action_space": actions.describe(),
        "simulator": {"entry": plan.entry, "init": plan.init, "max_episode_steps": plan.max_episode_steps},
        "skill": plan.skill.name,
        "spec_sha256": spec_sha256,
    }


@dataclass(frozen=True)
class Compared:
    """Three ways to act on the same starts."""

    initial: BenchmarkResult
    """The untrained policy."""
    random: BenchmarkResult
    """Actions of chance."""
    final: BenchmarkResult
    """The trained policy."""


def benchmark_report(plan: Plan, compared: Compared, train_seconds: float) -> dict[str, object]:
    """Return the benchmarks, and the few figures that a person looks for first."""
    initial, final = compared.initial, compared.final
    speed = plan.decisions / train_seconds if train_seconds > 0 else 0.0
    return {
        "schema": "stoker.benchmark/1",
        "return_before": number_to_wire(initial.aggregate.mean),
        "return_after": number_to_wire(final.aggregate.mean),
        "steps_per_second": round(speed, 1),
        "decisions": plan.decisions,
        "episodes": plan.benchmark.episodes,
        "policy": plan.benchmark.policy,
        "comparable": plan.comparable,
        "seeds": list(plan.benchmark.seeds),
        "return_of_chance": number_to_wire(compared.random.aggregate.mean),
        "initial": {plan.skill.name: {SCENARIO: _told(initial)}},
        "random": {plan.skill.name: {SCENARIO: _told(compared.random)}},
        "final": {plan.skill.name: {SCENARIO: _told(final)}},
    }


def benchmark_table(plan: Plan, compared: Compared) -> bytes:
    """Return every benchmark episode as a line of CSV."""
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("policy", "skill", "scenario", "seed", "return", "length", "terminated", "truncated", "success"))
    for name, result in (("initial", compared.initial), ("random", compared.random), ("final", compared.final)):
        for one in result.episodes:
            success = "" if one.success is None else one.success
            ended = (one.seed, one.total, one.length, one.terminated, one.truncated, success)
            writer.writerow((name, plan.skill.name, SCENARIO, *ended))
    return table.getvalue().encode()


def model_card(
    plan: Plan, spec_sha256: str, code: Path, device: str, metrics: Mapping[str, float], lineage: Mapping[str, object]
) -> dict[str, object]:
    """Return what a person must know to judge or repeat the result."""
    return {
        "schema": "stoker.model-card/1",
        "name": plan.name,
        "kind": plan.kind,
        "comparable": plan.comparable,
        "spec_sha256": spec_sha256,
        "code_sha256": code_sha256(code),
        "plan": msgspec.to_builtins(plan),
        "metrics": {name: number_to_wire(value) for name, value in metrics.items()},
        "lineage": dict(lineage),
        "hardware": {"device": device, "machine": platform.machine(), "processor": platform.processor()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        "system": platform.platform(),
    }


def code_sha256(code: Path) -> str | None:
    """Return a hash of the job's own files, names and contents, or None when it has none."""
    if not code.is_dir():
        return None
    digest = hashlib.sha256()
    for path in sorted(path for path in code.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(code).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def write_result(folder: Path, name: str, content: bytes | Mapping[str, object]) -> ArtifactReady:
    """Write one result and return what to announce."""
    data = content if isinstance(content, bytes) else json.dumps(json.loads(encode(content)), indent=1).encode() + b"\n"
    write_whole(folder / name, data)
    sha256 = hashlib.sha256(data).hexdigest()
    return ArtifactReady(name=name, kind="result", path=f"{folder.name}/{name}", sha256=sha256, size=len(data))


def _told(result: BenchmarkResult) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(result)
    del told["seconds"]
    return told
