"""Job specs: what a person asks for, as typed values with ranges and defaults.

The envelope is the same for every kind of job; the keys of kind ``rl-session`` stand beside it. This version takes the
short form of an rl-session: one simulator and one learned skill that sees the whole observation, starts where ``reset``
starts it and earns the simulator's own reward. Hyper-parameters stand in ``ppo``, or in the one entry of
``system.skills``. Nothing here imports torch or gymnasium: coordinator and command line check specs too.
"""

import json
import math
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal, cast, dataclass_transform

import msgspec
from msgspec import Meta

from worker_core.wire.codec import BadMessage, decode
from worker_core.wire.problems import FieldError
from worker_core.wire.strict import Mistakes, read_strictly, shown
from worker_core.wire.work import Limits

SPEC_SCHEMA = "stoker.job/1"
MAX_SPEC_BYTES = 1 << 20

_LATER = (
    "is not supported by this version, which takes the short form of an rl-session: one simulator, one learned skill"
)
_LATER_KEYS = {
    **{f"system.{key}": _LATER for key in ("sensors", "perceptors", "scenarios", "goals", "selector", "orchestrator")},
    **{
        f"system.skills[0].{key}": _LATER
        for key in ("sensors", "scenarios", "goals", "constraints", "success", "entry", "children")
    },
    "system.simulator.step_timeout_s": "is not supported by this version; limits.silence_seconds ends a job that hangs",
    "training.allocation": "is not supported by this version: there is one trainable skill, which gets every cycle",
}
_ENTRY = re.compile(r"^(gymnasium:[\w.\-/]+|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)$")


_NOT_IN_PATHS = frozenset("\\:\0")


class BadSpec(Mistakes):
    """A job spec cannot be accepted; ``errors`` names each field with what is allowed there."""


@dataclass_transform(frozen_default=True)
class _Part(msgspec.Struct, frozen=True, omit_defaults=True):
    pass


class GpuTarget(_Part):
    """Which GPUs a worker must have."""

    count: Annotated[int, Meta(ge=0, le=64)] = 0
    min_vram_gb: Annotated[float, Meta(ge=0, le=1024)] = 0


class Target(_Part):
    """Which worker may take the job: any, or one by name or id; labels it must have."""

    worker: Annotated[str, Meta(min_length=1, max_length=100)] = "any"
    labels: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...], Meta(max_length=32)] = ()
    min_ram_gb: Annotated[float, Meta(ge=0, le=65536)] = 0
    gpu: GpuTarget = GpuTarget()


class JobLimits(_Part):
    """What ends a job that takes too much; without ``max_memory_gb`` it is the share that the worker's owner gives.

    ``max_spend`` and ``idle_minutes`` are for kinds of jobs to come."""

    max_runtime_minutes: Annotated[float, Meta(ge=1, le=10_080)] = 720
    max_disk_gb: Annotated[float, Meta(ge=1, le=2_000)] = 20
    silence_seconds: Annotated[float, Meta(ge=10, le=86_400)] = 300
    max_memory_gb: Annotated[float, Meta(ge=0.25, le=65_536)] | None = None
    max_spend: None = None
    idle_minutes: Annotated[float, Meta(ge=1, le=10_080)] = 30


class CheckpointRule(_Part):
    """When a checkpoint is saved, how many stay, and how long a stopping job has to save one."""

    every_minutes: Annotated[float, Meta(ge=0.01, le=1_440)] = 10
    keep: Annotated[int, Meta(ge=1, le=100)] = 5
    grace_seconds: Annotated[float, Meta(ge=5, le=300)] = 30


class Retry(_Part):
    """How often a job is tried when its worker fails it."""

    max_attempts: Annotated[int, Meta(ge=1, le=5)] = 3


class HealthRule(_Part):
    """What happens when training goes wrong; each case is flagged with its step in any case.

    ``warn`` goes on, ``stop`` ends the job, ``rollback`` goes back to the last good checkpoint with half the learning
    rate, at most three times. ``stall_seconds`` is the shortest time without a step that counts as a stall; ten times
    the usual step time counts where that is longer.
    """

    stall: Literal["warn", "stop"] = "warn"
    nan: Literal["warn", "stop", "rollback"] = "stop"
    gradient: Literal["warn", "stop", "rollback"] = "warn"
    stall_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 120


class Restart(_Part):
    """How often a simulator that raises an error is made anew before the error ends the job."""

    lifetime: Annotated[int, Meta(ge=0, le=1_000)] = 10
    """Times in all, each simulator."""
    per_minute: Annotated[int, Meta(ge=0, le=60)] = 1


class Simulator(_Part):
    """Where the simulator comes from, and the arguments it is made with."""

    entry: Annotated[
        str,
        Meta(
            min_length=3,
            max_length=200,
            description="gymnasium:ID for a registered simulator, or module:Class for one in the job's files",
        ),
    ]
    init: dict[str, object] = {}
    restart: Restart = Restart()


class Ppo(msgspec.Struct, frozen=True):
    """Hyper-parameters of PPO; all are written out wherever one is."""

    learning_rate: Annotated[float, Meta(gt=0, le=1)] = 3e-4
    learning_rate_schedule: Literal["linear", "constant"] = "linear"
    minibatch_size: Annotated[int, Meta(ge=2, le=65_536)] = 64
    n_epochs: Annotated[int, Meta(ge=1, le=100)] = 10
    gamma: Annotated[float, Meta(ge=0, le=1)] = 0.99
    gae_lambda: Annotated[float, Meta(ge=0, le=1)] = 0.95
    clip_range: Annotated[float, Meta(gt=0, le=1)] = 0.2
    ent_coef: Annotated[float, Meta(ge=0, le=1)] = 0.0
    vf_coef: Annotated[float, Meta(ge=0, le=10)] = 0.5
    max_grad_norm: Annotated[float, Meta(gt=0, le=1_000)] = 0.5
    hidden: Annotated[tuple[Annotated[int, Meta(ge=1, le=4_096)], ...], Meta(max_length=8)] = (64, 64)
    normalize_observation: bool = False
    normalize_reward: bool = False


class Skill(_Part):
    """The one learned skill of the short form."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,39}$", description="1 to 40 of a-z, 0-9, _ and -")] = (
        "policy"
    )
    impl: Literal["learned"] = "learned"
    algorithm: Literal["ppo"] = "ppo"
    reward: Literal["simulator"] = "simulator"
    ppo: Ppo | None = None


class System(_Part):
    """What is trained: a simulator, and the skill that learns in it."""

    simulator: Simulator
    skills: Annotated[tuple[Skill, ...], Meta(max_length=1)] = ()


class Training(_Part):
    """How much is trained; ``max_episode_steps`` left out means the simulator's own limit, else 1,000."""

    cycles: Annotated[int, Meta(ge=1, le=10_000)] = 100
    simulators: Annotated[int, Meta(ge=1, le=64)] = 1
    machine: Literal["small", "gpu"] = "small"
    decisions_per_cycle: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    total_steps: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    rollout_fragment_length: Annotated[int, Meta(ge=8, le=4_096)] | Literal["auto"] = "auto"
    max_episode_steps: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"


class Benchmark(_Part):
    """How the untrained and the trained policy are compared.

    ``non_deterministic`` off: every episode has the same start (``seed``). On: episode i starts from ``seed + i``, so
    that starts differ between episodes and are the same for both policies.
    """

    episodes_per_scenario: Annotated[int, Meta(ge=1, le=1_000)] = 10
    non_deterministic: bool = False
    policy: Literal["greedy", "sampled"] = "greedy"
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 1_000


class Stop(_Part):
    """Early end of training: after so many evaluations in a row, one at each cycle's end, without a better return."""

    patience_evals: Annotated[int, Meta(ge=1, le=1_000)] | None = None


class JobSpec(_Part):
    """One job as its author wrote it, with the defaults filled in."""

    kind: Annotated[
        Literal["rl-session"], Meta(description="'rl-session'; other kinds are not supported by this version")
    ]
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    system: System
    schema: Literal["stoker.job/1"] = SPEC_SCHEMA
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    target: Target = Target()
    files: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=400)], ...], Meta(max_length=1_000)] = ()
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    on_lease_loss: Literal["continue", "stop"] = "continue"
    max_offline_minutes: Annotated[float, Meta(ge=0, le=10_080)] = 60
    network: Literal["none", "any"] = "none"
    limits: JobLimits = JobLimits()
    checkpoint: CheckpointRule = CheckpointRule()
    retry: Retry = Retry()
    health: HealthRule = HealthRule()
    mode: Literal["full", "quick"] = "full"
    training: Training = Training()
    benchmark: Benchmark = Benchmark()
    stop: Stop = Stop()
    ppo: Ppo | None = None


def parse_spec(raw: Mapping[str, object]) -> JobSpec:
    """Return the spec in ``raw``; raises :class:`BadSpec` that lists every field at fault."""
    try:
        spec = read_strictly(JobSpec, raw, _LATER_KEYS)
    except Mistakes as mistakes:
        raise BadSpec(mistakes.errors) from None
    errors = (*_entry_errors(spec), *_file_errors(spec), *_skill_errors(spec), *_amount_errors(spec))
    if errors:
        raise BadSpec(errors)
    return spec


def load_spec(text: str | bytes) -> JobSpec:
    """Return the spec in the JSON text that travels; raises :class:`BadSpec`."""
    if len(text) > MAX_SPEC_BYTES:
        raise BadSpec((FieldError(field="", message=f"the spec is longer than {MAX_SPEC_BYTES:,} bytes"),))
    try:
        return parse_spec(decode(text, dict[str, object]))
    except BadMessage as error:
        raise BadSpec((FieldError(field="", message=f"the spec is not a JSON object: {error}"),)) from error


def canonical_text(spec: JobSpec | Mapping[str, object]) -> str:
    """Return the JSON text that travels: keys sorted, nothing that depends on how the spec was written."""
    plain = msgspec.to_builtins(spec) if isinstance(spec, JobSpec) else spec
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def attempt_limits(spec: JobSpec) -> Limits:
    """Return the limits under which an attempt of this job runs."""
    minutes = (
        min(spec.limits.max_runtime_minutes, QUICK_MINUTES) if spec.mode == "quick" else spec.limits.max_runtime_minutes
    )
    return Limits(
        max_runtime_s=minutes * 60,
        max_disk_bytes=int(spec.limits.max_disk_gb * 1e9),
        stop_grace_s=spec.checkpoint.grace_seconds,
        silence_s=spec.limits.silence_seconds,
        max_offline_s=spec.max_offline_minutes * 60,
        on_lease_loss=spec.on_lease_loss,
        stall_s=spec.health.stall_seconds,
        on_stall=spec.health.stall,
        max_memory_bytes=None if spec.limits.max_memory_gb is None else int(spec.limits.max_memory_gb * 1e9),
        network=spec.network,
    )


QUICK_MINUTES = 5.0
"""Longest run in ``mode: quick``."""


def learned_skill(spec: JobSpec) -> Skill:
    """Return the one skill that the short form trains, with its hyper-parameters."""
    skill = spec.system.skills[0] if spec.system.skills else Skill()
    return msgspec.structs.replace(skill, ppo=skill.ppo or spec.ppo or Ppo())


def _entry_errors(spec: JobSpec) -> list[FieldError]:
    simulator = spec.system.simulator
    errors: list[FieldError] = []
    if not _ENTRY.fullmatch(simulator.entry):
        message = (
            f"{shown(simulator.entry)} is not allowed; write gymnasium:ID for a registered simulator "
            "(gymnasium:CartPole-v1), or module:Class for one in the job's files (my_env:MyEnv)"
        )
        errors.append(FieldError(field="system.simulator.entry", message=message))
    elif not simulator.entry.startswith("gymnasium:") and not spec.files:
        message = f"{shown(simulator.entry)} is the job's own code, so list the files it stands in under files"
        errors.append(FieldError(field="system.simulator.entry", message=message))
    errors.extend(_plain_errors(simulator.init, "system.simulator.init"))
    return errors


def _plain_errors(value: object, path: str) -> list[FieldError]:
    """Refuse what JSON cannot carry, such as a date of TOML."""
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return [error for key, item in items for error in _plain_errors(item, f"{path}.{key}")]
    if isinstance(value, (list, tuple)):
        entries = enumerate(cast("list[object]", value))
        return [error for index, item in entries for error in _plain_errors(item, f"{path}[{index}]")]
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return []
    return [
        FieldError(
            field=path, message=f"{shown(value)} is not allowed; it must be text, a finite number, true or false"
        )
    ]


def _file_errors(spec: JobSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, name in enumerate(spec.files):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or set(name) & _NOT_IN_PATHS:
            message = f"{shown(name)} is not allowed; it must be a path below the spec's folder, with / between folders"
            errors.append(FieldError(field=f"files[{index}]", message=message))
    return errors


def _skill_errors(spec: JobSpec) -> list[FieldError]:
    if not spec.system.skills:
        return []
    errors: list[FieldError] = []
    if spec.ppo is not None and spec.system.skills[0].ppo is not None:
        errors.append(FieldError(field="ppo", message="stands here and in system.skills[0].ppo; keep one of them"))
    if spec.system.skills[0].name == "initial":
        message = "'initial' is not allowed; benchmarks of the untrained policy carry that name"
        errors.append(FieldError(field="system.skills[0].name", message=message))
    return errors


def _amount_errors(spec: JobSpec) -> list[FieldError]:
    steps, simulators = spec.training.total_steps, spec.training.simulators
    if steps is not None and steps < simulators:
        message = f"{steps} is not allowed; with {simulators} simulators it must be at least {simulators}"
        return [FieldError(field="training.total_steps", message=message)]
    return []
