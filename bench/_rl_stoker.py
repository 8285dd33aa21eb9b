"""One run of Stoker's engine: `python -m bench._rl_stoker WORK STEPS SEED`; `limit` tells what the machine allows.

Prints one line of JSON: steps_per_s from the first step to the last update, and the mean return of the last 100
episodes.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench._rl_works import ROLLOUT, WORKS, Work, make
from worker_core.training.rl import snapshot
from worker_core.training.rl.crew import build
from worker_core.training.rl.device import usable_cores
from worker_core.training.rl.ppo import PpoLearner
from worker_core.training.rl.team import MOST_SHARDS, Team
from worker_core.wire.plan import Plan, resolve
from worker_core.wire.spec import parse_spec

_HERE = Path(__file__).parent
_LIMIT_S = 2.0


def plan_of(work: Work, steps: int, seed: int) -> Plan:
    """Return the plan of one run."""
    entry = f"gymnasium:{work.entry}" if work.entry else "_rl_works:BusySimulator"
    skill = {
        "learning_rate": work.learning_rate,
        "minibatch_size": work.minibatch,
        "n_epochs": work.epochs,
        "normalize_observation": work.normalised,
        "normalize_reward": work.normalised,
    }
    simulator = {"entry": entry, "init": {} if work.entry else {"burn": work.burn}}
    training = {
        "cycles": 10_000,
        "simulators": work.simulators,
        "total_steps": steps,
        "rollout_fragment_length": ROLLOUT,
    }
    spec: dict[str, Any] = {
        "kind": "rl-session",
        "name": "race",
        "seed": seed,
        "files": [] if work.entry else ["_rl_works.py"],
        "system": {"simulator": simulator, "skills": [{"name": "main", "impl": "learned", "ppo": skill}]},
        "training": training,
    }
    return resolve(parse_spec(spec))


def run(work: Work, steps: int, seed: int) -> dict[str, float]:
    """Train once."""
    plan = plan_of(work, steps, seed)
    make_one, observations, learner = build(plan, _HERE)
    learner.policy.initialise(snapshot.first_weights(seed))
    learner.joint.read(learner.policy.flat)
    shards = min(usable_cores(), MOST_SHARDS, plan.simulators)
    team = Team(plan, _HERE, make_one, observations, learner, shards)
    team.start(snapshot.simulator_seeds(seed, plan.simulators))
    team.snapshot()  # all processes have answered: their start is not part of the race
    began, done, update = time.perf_counter(), 0, 0
    while done < plan.steps_per_simulator:
        now = min(ROLLOUT, plan.steps_per_simulator - done)
        left = 1 - done / plan.steps_per_simulator
        team.update(update, now, work.learning_rate * left, lambda _row: None)
        done, update = done + now, update + 1
    seconds = time.perf_counter() - began
    ends = [end.total for end in team.recent]
    team.close()
    return {"steps_per_s": plan.decisions / seconds, "final_return": sum(ends) / max(1, len(ends))}


def limit(work: Work) -> dict[str, float]:
    """Return what all cores could do if nothing cost time but simulators and the networks' own arithmetic."""
    plan = plan_of(work, work.steps, 0)
    learner = build(plan, _HERE)[2]
    learner.policy.initialise(snapshot.first_weights(0))
    learner.joint.read(learner.policy.flat)
    a_step = _simulator_seconds(work) + _learner_seconds(work, learner)
    return {"steps_per_s": usable_cores() / a_step}


def _simulator_seconds(work: Work) -> float:
    env = make(work)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(64)]
    env.reset(seed=0)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < _LIMIT_S:
        _, _, terminated, truncated, _ = env.step(actions[steps % 64])
        steps += 1
        if terminated or truncated:
            env.reset()
    return (time.perf_counter() - began) / steps


def _learner_seconds(work: Work, learner: PpoLearner) -> float:
    """Seconds of forward and backward passes for each decision."""
    joint, size = learner.joint, learner.policy.actor[0][0].shape[1]
    inputs = np.ones((size + 1, work.minibatch), np.float32)
    outputs = np.ones((learner.policy.actions.outputs, work.minibatch), np.float32)
    gradient = joint.views(np.zeros_like(joint.flat))
    passes, began = 0, time.perf_counter()
    while time.perf_counter() - began < _LIMIT_S:
        joint.forward(inputs)
        joint.backward(inputs, outputs, outputs[:1], gradient)
        passes += 1
    return (time.perf_counter() - began) / passes / work.minibatch * work.epochs


def main() -> None:
    """Run what the arguments say."""
    work = WORKS[sys.argv[1]]
    told = limit(work) if sys.argv[2] == "limit" else run(work, int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
