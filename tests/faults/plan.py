"""A schedule of faults: what goes wrong when, drawn from one seed. Pure: the same seed gives the same plan."""

import random
from dataclasses import dataclass
from typing import Literal

FaultKind = Literal[
    "kill-core",
    "kill-job",
    "kill-coordinator",
    "end-core",
    "end-coordinator",
    "freeze-worker",
    "cut",
    "refuse",
    "delay",
    "reset",
    "drop-reply",
    "cut-reply",
    "duplicate",
    "portal",
    "throttle",
    "poll-lost",
    "full-disk",
    "worker-sleeps",
    "worker-date",
    "coordinator-sleeps",
    "coordinator-date",
    "drain",
    "stop",
    "resume",
    "drain-here",
    "stop-here",
    "resume-here",
    "cancel",
    "retry",
    "revoke",
    "stop-job-here-now",
]

_WEIGHTS: dict[FaultKind, float] = {
    "kill-core": 3,
    "kill-job": 3,
    "kill-coordinator": 3,
    "end-core": 1,
    "end-coordinator": 1,
    "freeze-worker": 1.5,
    "cut": 3,
    "refuse": 1,
    "delay": 1.5,
    "reset": 1.5,
    "drop-reply": 2.5,
    "cut-reply": 1.5,
    "duplicate": 2,
    "portal": 1.5,
    "throttle": 1,
    "poll-lost": 1,
    "full-disk": 1.5,
    "worker-sleeps": 1.5,
    "worker-date": 1,
    "coordinator-sleeps": 1.5,
    "coordinator-date": 1,
    "drain": 1,
    "stop": 2,
    "resume": 1,
    "drain-here": 0.7,
    "stop-here": 1.2,
    "resume-here": 1,
    "cancel": 2,
    "retry": 1,
    "revoke": 0.7,
    "stop-job-here-now": 0.5,
}

JobKind = Literal["plain", "raise", "memory", "die", "leave", "stubborn", "endless"]

_JOBS: dict[JobKind, float] = {
    "plain": 6,
    "raise": 1,
    "memory": 1,
    "die": 1.5,
    "leave": 1,
    "stubborn": 1,
    "endless": 1,
}


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, or that a person does."""

    at_s: float
    """After the start of the schedule."""
    kind: FaultKind
    target: int
    """Which worker, or which job, of those there are (modulo their number)."""
    lasts_s: float
    size: float
    """Between 0 and 1; what it means depends on the kind."""


@dataclass(frozen=True)
class PlannedJob:
    """A job to submit."""

    at_s: float
    kind: JobKind
    steps: int
    step_s: float
    at: int
    """At which step of its process it goes wrong."""
    max_attempts: int
    stops_alone: bool
    """Whether it ends when its lease may be lost, instead of going on."""


@dataclass(frozen=True)
class Plan:
    """Everything one seed decides."""

    seed: int
    stations: int
    jobs: tuple[PlannedJob, ...]
    faults: tuple[Fault, ...]
    small_disk: bool = False
    """Whether the first worker's home lies on a disk of a few megabytes that can really be full."""


def draw(seed: int, window_s: float = 5.0) -> Plan:
    """Return the plan of a seed; faults begin within ``window_s``."""
    dice = random.Random(seed)
    stations = dice.choice((1, 2, 2))
    jobs = tuple(_draw_job(dice) for _ in range(dice.randint(2, 3)))
    faults = tuple(sorted((_draw_fault(dice, window_s) for _ in range(dice.randint(3, 7))), key=lambda f: f.at_s))
    full = any(fault.kind == "full-disk" for fault in faults)
    return Plan(seed, stations, jobs, faults, small_disk=full and dice.random() < 0.7)


def _draw_job(dice: random.Random) -> PlannedJob:
    kinds, weights = zip(*_JOBS.items(), strict=True)
    kind: JobKind = dice.choices(kinds, weights)[0]
    steps = 10_000_000 if kind == "endless" else dice.randrange(8, 24) * 32
    return PlannedJob(
        at_s=dice.choice((0.0, 0.0, dice.uniform(0, 2))),
        kind=kind,
        steps=steps,
        step_s=dice.choice((0.001, 0.002, 0.003)),
        at=dice.randrange(60, 400),
        max_attempts=dice.choice((1, 2, 3)),
        stops_alone=dice.random() < 0.25,
    )


def _draw_fault(dice: random.Random, window_s: float) -> Fault:
    kinds, weights = zip(*_WEIGHTS.items(), strict=True)
    return Fault(
        at_s=dice.uniform(0.2, window_s),
        kind=dice.choices(kinds, weights)[0],
        target=dice.randrange(1000),
        lasts_s=dice.uniform(0.3, 3.0) if dice.random() < 0.7 else dice.uniform(3.0, 6.0),
        size=dice.random(),
    )


def spec_of(job: PlannedJob, name: str) -> dict[str, object]:
    """Return the spec of a planned job: a tiny rl-session of the patient simulator."""
    wrong = job.kind if job.kind not in ("plain", "endless") else ""
    return {
        "kind": "rl-session",
        "name": name,
        "system": {
            "simulator": {
                "entry": "patient:PatientPole",
                "init": {"step_s": job.step_s, "goes_wrong": wrong, "at": job.at},
            }
        },
        "files": ["patient.py"],
        "training": {
            "simulators": 2,
            "total_steps": job.steps,
            "rollout_fragment_length": 16,
            "max_episode_steps": 40,
        },
        "ppo": {"minibatch_size": 32, "n_epochs": 1, "hidden": [8]},
        "benchmark": {"episodes_per_scenario": 1},
        "checkpoint": {"every_minutes": 0.01, "grace_seconds": 5, "keep": 50},
        "retry": {"max_attempts": job.max_attempts},
        "max_offline_minutes": 0.05,
        "on_lease_loss": "stop" if job.stops_alone else "continue",
    }
