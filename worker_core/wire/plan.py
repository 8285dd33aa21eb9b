"""A job spec resolved into a plan: every default written out, every multiplication shown."""

import itertools
import math

import msgspec

from worker_core.wire.codec import encode
from worker_core.wire.durations import format_duration
from worker_core.wire.spec import HealthRule, JobSpec, Ppo, Restart, Training, attempt_limits, learned_skill

QUICK_CYCLES = 2
AUTO_DECISIONS = 2_048
AUTO_LEAST = 64
DEFAULT_EPISODE_STEPS = 1_000
MACHINE_FACTORS = {"small": 1, "gpu": 4}

_ASSUMED_OBSERVATION = 64
_RESULT_BYTES = 2_000_000


class SkillPlan(msgspec.Struct, frozen=True):
    """The skill that is trained, with every hyper-parameter."""

    name: str
    impl: str
    algorithm: str
    reward: str
    ppo: Ppo


class BenchmarkPlan(msgspec.Struct, frozen=True):
    """Both benchmarks play these seeds, one episode each."""

    episodes: int
    policy: str
    seeds: tuple[int, ...]


class Plan(msgspec.Struct, frozen=True):
    """What will be done; all counts are of decisions (steps of one simulator) where no other unit stands."""

    kind: str
    name: str
    seed: int
    mode: str
    entry: str
    init: dict[str, object]
    restart: Restart
    device: str
    max_episode_steps: int | None
    """``None``: the simulator's own limit, or 1,000 where it has none."""
    skill: SkillPlan
    cycles: int
    simulators: int
    machine: str
    machine_factor: int
    decisions_per_cycle: int
    total_cycles: int
    """cycles × simulators × machine factor."""
    total_steps: int | None
    decisions: int
    """total cycles × decisions per cycle, capped by ``total_steps``, rounded down to whole steps of all simulators."""
    steps_per_simulator: int
    fragment: int
    """Steps of each simulator between two updates."""
    decisions_per_update: int
    updates: int
    last_update_decisions: int
    minibatches_per_update: int
    benchmark: BenchmarkPlan
    patience_evals: int | None
    """Evaluations in a row without a better return that end training early; ``None``: none are made."""
    checkpoint_every_s: float
    checkpoint_keep: int
    grace_s: float
    max_runtime_s: float
    silence_s: float
    health: HealthRule
    max_attempts: int
    disk_bytes: int
    """Rough: checkpoints that are kept, and the results."""
    comparable: bool
    """False for ``mode: quick``: such a result says nothing about the full run."""


def resolve(spec: JobSpec) -> Plan:
    """Return what ``spec`` amounts to."""
    training, skill = spec.training, learned_skill(spec)
    cycles = min(training.cycles, QUICK_CYCLES) if spec.mode == "quick" else training.cycles
    factor = MACHINE_FACTORS[training.machine]
    total_cycles = cycles * training.simulators * factor
    planned = total_cycles * training.decisions_per_cycle
    steps = min(planned, training.total_steps or planned) // training.simulators
    fragment = min(_fragment(training), steps)
    updates = math.ceil(steps / fragment)
    ppo = skill.ppo or Ppo()
    limits = attempt_limits(spec)
    return Plan(
        kind=spec.kind,
        name=spec.name,
        seed=spec.seed,
        mode=spec.mode,
        entry=spec.system.simulator.entry,
        init=spec.system.simulator.init,
        restart=spec.system.simulator.restart,
        device=training.device,
        max_episode_steps=training.max_episode_steps,
        skill=SkillPlan(skill.name, skill.impl, skill.algorithm, skill.reward, ppo),
        cycles=cycles,
        simulators=training.simulators,
        machine=training.machine,
        machine_factor=factor,
        decisions_per_cycle=training.decisions_per_cycle,
        total_cycles=total_cycles,
        total_steps=training.total_steps,
        decisions=steps * training.simulators,
        steps_per_simulator=steps,
        fragment=fragment,
        decisions_per_update=fragment * training.simulators,
        updates=updates,
        last_update_decisions=(steps - (updates - 1) * fragment) * training.simulators,
        minibatches_per_update=ppo.n_epochs * math.ceil(fragment * training.simulators / ppo.minibatch_size),
        benchmark=_benchmark(spec),
        patience_evals=spec.stop.patience_evals,
        checkpoint_every_s=spec.checkpoint.every_minutes * 60,
        checkpoint_keep=spec.checkpoint.keep,
        grace_s=spec.checkpoint.grace_seconds,
        max_runtime_s=limits.max_runtime_s,
        silence_s=limits.silence_s,
        health=spec.health,
        max_attempts=spec.retry.max_attempts,
        disk_bytes=(spec.checkpoint.keep + 2) * _checkpoint_bytes(training, ppo) + _RESULT_BYTES,
        comparable=spec.mode == "full",
    )


def plan_lines(plan: Plan) -> list[str]:
    """Return the plan as lines for a person."""
    cap = f", capped by total_steps {plan.total_steps:,}" if plan.total_steps is not None else ""
    episode = f"{plan.max_episode_steps:,}" if plan.max_episode_steps else "the simulator's own limit, else 1,000"
    skill, ppo = plan.skill, msgspec.to_builtins(plan.skill.ppo)
    return [
        f"{plan.name}: {plan.kind}, mode {plan.mode}, seed {plan.seed}",
        f"simulator      {plan.entry}" + (f" made with {encode(plan.init).decode()}" if plan.init else ""),
        f"restarts       a simulator that fails is made anew up to {plan.restart.lifetime} times, "
        f"{plan.restart.per_minute} a minute",
        f"skill          {skill.name}: {skill.impl} by {skill.algorithm}, reward of the {skill.reward}",
        f"cycles         {plan.cycles:,} cycles × {plan.simulators} simulators × {plan.machine_factor} "
        f"(machine {plan.machine}) = {plan.total_cycles:,} cycles",
        f"decisions      {plan.total_cycles:,} cycles × {plan.decisions_per_cycle:,} decisions{cap} "
        f"= {plan.decisions:,} decisions",
        f"updates        {plan.fragment:,} steps × {plan.simulators} simulators = "
        f"{plan.decisions_per_update:,} decisions an update, {plan.updates:,} updates "
        f"(the last of {plan.last_update_decisions:,})",
        f"learning       {plan.minibatches_per_update:,} minibatches an update; "
        + ", ".join(f"{key} {_short(value)}" for key, value in ppo.items()),
        f"episode limit  {episode} steps; the end is then truncated, not terminated",
        f"benchmark      {_benchmark_line(plan.benchmark)}, before and after training",
        *_early_end_line(plan),
        f"checkpoints    every {format_duration(plan.checkpoint_every_s)}, {plan.checkpoint_keep} newest and the best "
        f"kept, {plan.grace_s:g} s grace to stop",
        f"limits         {format_duration(plan.max_runtime_s)} run time, {plan.silence_s:g} s silence, "
        f"{plan.max_attempts} attempts",
        f"health         {_health_line(plan.health)}",
        f"disk           about {max(1, round(plan.disk_bytes / 1e6)):,} MB",
        f"device         {plan.device}",
    ]


def _fragment(training: Training) -> int:
    if training.rollout_fragment_length != "auto":
        return training.rollout_fragment_length
    return max(AUTO_LEAST, math.ceil(AUTO_DECISIONS / training.simulators))


def _benchmark(spec: JobSpec) -> BenchmarkPlan:
    asked = spec.benchmark
    spread = 1 if asked.non_deterministic else 0
    seeds = tuple(asked.seed + spread * episode for episode in range(asked.episodes_per_scenario))
    return BenchmarkPlan(episodes=len(seeds), policy=asked.policy, seeds=seeds)


def _benchmark_line(benchmark: BenchmarkPlan) -> str:
    first, last = benchmark.seeds[0], benchmark.seeds[-1]
    starts = f"all from one start (seed {first})" if first == last else f"starts of seeds {first} to {last}"
    return f"{benchmark.episodes:,} {benchmark.policy} episodes, {starts}"


def _early_end_line(plan: Plan) -> list[str]:
    if plan.patience_evals is None:
        return []
    return [f"early end      after {plan.patience_evals} evaluations, one at each cycle's end, without a better return"]


def _health_line(health: HealthRule) -> str:
    words = {"warn": "warn", "stop": "stop", "rollback": "roll back"}
    stall = f"a stall of {health.stall_seconds:g} s or more: {words[health.stall]}"
    return f"{stall}; NaN: {words[health.nan]}; exploding gradients: {words[health.gradient]}"


def _checkpoint_bytes(training: Training, ppo: Ppo) -> int:
    """Guess the size: weights and two moments of Adam for two networks, and the actions since each reset."""
    widths = (_ASSUMED_OBSERVATION, *ppo.hidden, _ASSUMED_OBSERVATION)
    weights = 2 * sum(fan_in * fan_out + fan_out for fan_in, fan_out in itertools.pairwise(widths))
    actions = training.simulators * (training.max_episode_steps or DEFAULT_EPISODE_STEPS)
    return 3 * 4 * weights + 8 * actions


def _short(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return "×".join(str(item) for item in value) or "none"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)
