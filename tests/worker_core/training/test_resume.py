"""Killed anywhere and resumed is the same as never killed: bit for bit on one machine."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from training_core import JobShop, ScriptedCore, quick_spec, wait_until

from worker_core.wire.events import CheckpointSaved, Metric, Status
from worker_core.wire.frames import ArtifactReady, Order

OFTEN = {"every_minutes": 0.01, "keep": 100}
SPECS = {
    "CartPole": quick_spec(checkpoint=OFTEN, training={"cycles": 8, "simulators": 3, "rollout_fragment_length": 64}),
    "LunarLander": quick_spec(
        "LunarLander-v3",
        checkpoint=OFTEN,
        training={"cycles": 5, "simulators": 3, "rollout_fragment_length": 64},
        ppo={"n_epochs": 3, "normalize_observation": True, "normalize_reward": True},
    ),
    "Pendulum": quick_spec(
        "Pendulum-v1", checkpoint=OFTEN, ppo={"normalize_observation": True, "normalize_reward": True}
    ),
}


def final_weights(job: ScriptedCore) -> bytes:
    return (job.workspace / "results" / "policy.safetensors").read_bytes()


def told(job: ScriptedCore) -> list[tuple[int, dict[str, object]]]:
    """Return all metrics but the one that is time."""
    return [
        (step, {name: value for name, value in values.items() if name != "time/fps"}) for step, values in job.metrics()
    ]


def killed_after(job: ScriptedCore, updates: int) -> ArtifactReady:
    """Kill a job some updates after it has saved a checkpoint in the middle of training; return the checkpoint."""
    job.wait_for(lambda body: isinstance(body, Metric) and body.step > 0)
    job.order(Order(do="checkpoint", grace_s=10))
    saved = job.wait_for(lambda body: isinstance(body, ArtifactReady) and (body.step or 0) > 0)
    assert isinstance(saved, ArtifactReady)
    reached = (saved.step or 0) + updates * 3 * 64
    job.wait_for(lambda body: isinstance(body, Metric) and body.step > reached)
    job.kill()
    job.process.wait()
    return saved


@pytest.mark.parametrize("name", SPECS)
def test_a_job_that_was_killed_twice_ends_with_the_weights_and_metrics_of_one_that_was_not(
    shop: JobShop, name: str
) -> None:
    spec = SPECS[name]
    straight = shop.run(spec)
    assert straight.done().outcome == "succeeded", straight.output()
    first = shop.start(shop.workspace(spec))
    saved = killed_after(first, updates=3)
    second = resumed(shop, spec, first, saved)
    again = killed_after(second, updates=1)
    third = resumed(shop, spec, second, again)
    assert third.wait() == 0
    assert third.logs()[1:] == [f"resumed at decision {again.step:,} of {straight.done().usage.steps:,}"]
    assert final_weights(third) == final_weights(straight)
    assert told(third) == [point for point in told(straight) if point[0] > (again.step or 0)]


def resumed(shop: JobShop, spec: dict[str, object], job: ScriptedCore, saved: ArtifactReady) -> ScriptedCore:
    return shop.resume(spec, job.workspace / saved.path, saved.sha256, saved.step or 0)


def test_a_job_killed_after_training_only_repeats_the_benchmark(shop: JobShop) -> None:
    straight = shop.run(SPECS["Pendulum"])
    last = straight.artifacts("checkpoint")[-1]
    job = resumed(shop, SPECS["Pendulum"], straight, last)
    assert job.wait() == 0
    assert "training" in job.phases()
    assert job.done().usage.steps == 0
    assert final_weights(job) == final_weights(straight)
    assert not [body for body in job.bodies if isinstance(body, CheckpointSaved)]


def test_two_runs_of_one_seed_say_the_same_and_another_seed_says_something_else(shop: JobShop) -> None:
    one, same = (shop.run(quick_spec()) for _ in range(2))
    other = shop.run(quick_spec(seed=4))
    assert told(one) == told(same) != told(other)


MOODY = """
import gymnasium, numpy, random

class Moody(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), numpy.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.array([random.random()]), {}

    def step(self, action):
        return numpy.array([random.random()]), 1.0, False, False, {}
"""


def test_a_simulator_that_cannot_be_replayed_begins_again_and_the_log_says_so(shop: JobShop) -> None:
    spec = quick_spec(system={"simulator": {"entry": "moody:Moody"}}, files=["moody.py"])
    straight = shop.run(spec, {"moody.py": MOODY})
    assert any("same seed" in line for line in straight.logs())
    saved = straight.artifacts("checkpoint")[-1]
    job = shop.resume(spec, straight.workspace / saved.path, saved.sha256, saved.step or 0, {"moody.py": MOODY})
    assert job.wait() == 0
    assert any("inexact: simulators 0, 1, 2" in line for line in job.logs())


def refused(shop: JobShop, job: ScriptedCore, checkpoint: Path, sha256: str, spec: dict[str, object]) -> str:
    attempt = shop.resume(spec, checkpoint, sha256, 1)
    assert attempt.wait() == 1
    error = attempt.done().error
    assert error is not None
    assert error.failure == "data-missing"
    return error.message


def test_torn_changed_and_foreign_checkpoints_are_refused_by_name(shop: JobShop, tmp_path: Path) -> None:
    spec = quick_spec(training={"cycles": 1, "simulators": 1, "decisions_per_cycle": 64})
    job = shop.run(spec)
    saved = job.artifacts("checkpoint")[-1]
    whole = job.workspace / saved.path
    torn = job.workspace / "torn"
    torn.write_bytes(whole.read_bytes()[:-100])
    assert "sha256" in refused(shop, job, torn, saved.sha256, spec)
    other = quick_spec(seed=99, training={"cycles": 1, "simulators": 1, "decisions_per_cycle": 64})
    assert "another job spec" in refused(shop, job, whole, saved.sha256, other)


def test_a_policy_of_the_wrong_schema_is_no_checkpoint(shop: JobShop) -> None:
    spec = quick_spec(training={"cycles": 1, "simulators": 1, "decisions_per_cycle": 64})
    job = shop.run(spec)
    policy = next(artifact for artifact in job.artifacts("result") if artifact.name == "policy.safetensors")
    assert "schema" in refused(shop, job, job.workspace / policy.path, policy.sha256, spec)


def test_checkpoints_hold_arrays_and_json_and_nothing_to_execute(shop: JobShop) -> None:
    job = shop.run(quick_spec(training={"cycles": 1, "simulators": 2, "decisions_per_cycle": 64}))
    path = job.workspace / job.artifacts("checkpoint")[-1].path
    arrays = load_file(path)
    assert {"adam.first", "adam.second", "simulator.0.current", "policy.actor.0.weight"} <= set(arrays)
    assert all(array.dtype != np.dtype(object) for array in arrays.values())
    length = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]
    assert header["schema"] == "stoker.checkpoint/1"
    assert json.loads(header["state"])["counters"]["steps"] == 64


LAZY = """
import gymnasium, numpy, os, time

class Lazy(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(1, numpy.float32), {}

    def step(self, action):
        if os.path.exists("slow"):
            time.sleep(0.05)
        return numpy.zeros(1, numpy.float32), 0.0, False, False, {}
"""


def test_a_slow_resume_is_no_silence_and_one_that_is_stopped_leaves_the_old_checkpoint_the_newest(
    shop: JobShop,
) -> None:
    training = {"cycles": 1, "simulators": 1, "decisions_per_cycle": 600, "rollout_fragment_length": 600}
    spec = quick_spec(system={"simulator": {"entry": "lazy:Lazy"}}, files=["lazy.py"], training=training)
    straight = shop.run(spec, {"lazy.py": LAZY})
    saved = straight.artifacts("checkpoint")[-1]
    job = shop.resume(
        spec, straight.workspace / saved.path, saved.sha256, saved.step or 0, {"lazy.py": LAZY, "../slow": ""}
    )
    wait_until(lambda: sum(isinstance(body, Status) and body.phase == "resuming" for body in job.bodies) >= 3)
    asked = time.monotonic()
    job.order(Order(do="stop", grace_s=60))
    assert job.wait() == 0
    assert time.monotonic() - asked < 20
    assert job.done().outcome == "stopped"
    assert job.artifacts("checkpoint") == []
    assert not [body for body in job.bodies if isinstance(body, CheckpointSaved)]
    assert not (job.workspace / "checkpoints" / "latest.json").exists()
