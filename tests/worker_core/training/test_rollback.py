"""A training that goes wrong is flagged with its step, and rolled back where the spec says so, within a bound."""

from typing import Any

from training_core import JobShop, ScriptedCore, quick_spec

from worker_core.wire.events import Flag, Metric
from worker_core.wire.frames import ArtifactReady, Order

SOUR = """
import gymnasium, numpy

class Sour(gymnasium.Env):
    # One long episode. In some stretches of 64 steps it pays what no loss, or no sum, can hold.
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, bad=(), huge=()):
        self.bad, self.huge, self.t = bad, huge, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1, 1, 1).astype(numpy.float32), {}

    def step(self, action):
        stretch = self.t // 64 + 1
        self.t += 1
        pays = 3e38 if stretch in self.huge else 1e30 if stretch in self.bad else float(action)
        return self.np_random.uniform(-1, 1, 1).astype(numpy.float32), pays, False, False, {}
"""


def sour(bad: list[int], health: dict[str, str], huge: tuple[int, ...] = (), **changes: Any) -> dict[str, object]:
    training = {
        "cycles": 1,
        "simulators": 1,
        "decisions_per_cycle": 1280,
        "rollout_fragment_length": 64,
        "max_episode_steps": 10_000,
    }
    return quick_spec(
        system={"simulator": {"entry": "sour:Sour", "init": {"bad": bad, "huge": list(huge)}}},
        benchmark={"episodes_per_scenario": 1},
        files=["sour.py"],
        training=training,
        health=health,
        **changes,
    )


def run(shop: JobShop, spec: dict[str, object]) -> ScriptedCore:
    job = shop.run(spec, {"sour.py": SOUR})
    job.wait()
    return job


def flags(job: ScriptedCore) -> list[tuple[int, str, str]]:
    return [(body.step, body.flag, body.action) for body in job.bodies if isinstance(body, Flag)]


def learning_rates(job: ScriptedCore) -> list[float]:
    rows = [body.values for body in job.bodies if isinstance(body, Metric)]
    return [float(row["train/learning_rate"]) for row in rows if "train/learning_rate" in row]


def final_weights(job: ScriptedCore) -> bytes:
    return (job.workspace / "results" / "policy.safetensors").read_bytes()


def test_a_loss_that_is_no_number_ends_the_job_and_names_its_step(shop: JobShop) -> None:
    job = run(shop, sour([5], {}))
    assert flags(job) == [(320, "nan", "stop")]
    error = job.done().error
    assert error is not None
    assert error.failure == "numeric"
    assert "decision 320" in error.message


def test_a_roll_back_goes_on_from_the_last_good_checkpoint_with_half_the_learning_rate(shop: JobShop) -> None:
    job = run(shop, sour([5], {"nan": "rollback"}, ppo={"learning_rate_schedule": "constant"}))
    assert job.done().outcome == "succeeded", job.output()
    assert flags(job) == [(320, "nan", "rollback")]
    rates = learning_rates(job)
    assert (rates[0], rates[-1]) == (3e-4, 1.5e-4)
    steps = [step for step, _ in job.metrics()]
    assert steps == sorted(steps)


def test_the_fourth_trouble_ends_the_job(shop: JobShop) -> None:
    job = run(shop, sour([3, 6, 9, 12], {"nan": "rollback"}))
    assert [action for _, _, action in flags(job)] == ["rollback", "rollback", "rollback", "stop"]
    error = job.done().error
    assert error is not None
    assert "again, after 3 roll backs" in error.message


def test_a_job_that_is_only_warned_goes_on_while_its_weights_are_numbers(shop: JobShop) -> None:
    job = run(shop, sour([5, 6, 9], {"nan": "warn"}))
    assert flags(job) == [(320, "nan", "warn"), (576, "nan", "warn")]
    assert job.done().outcome == "succeeded"


def test_weights_that_are_no_numbers_are_neither_saved_nor_delivered(shop: JobShop) -> None:
    job = run(shop, sour([], {"nan": "warn"}, huge=(5,)))
    assert flags(job) == [(320, "nan", "warn")]
    error = job.done().error
    assert error is not None
    assert (error.failure, "no result" in error.message) == ("numeric", True)
    assert not job.artifacts("result")
    assert all((artifact.step or 0) < 320 for artifact in job.artifacts("checkpoint"))


# Checkpoints only where they are ordered, so that all runs go back to the same ones.
TWICE = sour([5, 9], {"nan": "rollback"}, checkpoint={"every_minutes": 60})


def test_a_job_killed_before_its_roll_backs_finds_them_again(shop: JobShop) -> None:
    straight = run(shop, TWICE)
    assert [action for _, _, action in flags(straight)] == ["rollback", "rollback"]
    begun = straight.artifacts("checkpoint")[0]
    assert begun.step == 0
    again = shop.resume(TWICE, straight.workspace / begun.path, begun.sha256, 0, {"sour.py": SOUR})
    assert again.wait() == 0
    assert flags(again) == flags(straight)
    assert final_weights(again) == final_weights(straight)


def test_a_job_killed_after_its_roll_backs_ends_like_one_that_was_not(shop: JobShop) -> None:
    straight = run(shop, TWICE)
    first = shop.start(shop.workspace(TWICE, {"sour.py": SOUR}))
    first.wait_for(lambda body: isinstance(body, Flag) and body.step == 576)
    first.order(Order(do="checkpoint", grace_s=60))
    saved = first.wait_for(lambda body: isinstance(body, ArtifactReady) and (body.step or 0) >= 576)
    assert isinstance(saved, ArtifactReady)
    first.kill()
    second = shop.resume(TWICE, first.workspace / saved.path, saved.sha256, saved.step or 0, {"sour.py": SOUR})
    assert second.wait() == 0
    assert flags(second) == []
    assert learning_rates(second)[-1] == learning_rates(straight)[-1]
    assert final_weights(second) == final_weights(straight)


IDLE = """
import ctypes, gymnasium, numpy, time

class Idle(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(1, numpy.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == 300:
            time.sleep(3)
        if self.t == 400:
            self.wait_with_the_interpreter_held()
        return numpy.zeros(1, numpy.float32), 0.0, False, self.t % 32 == 0, {}

    def wait_with_the_interpreter_held(self):
        ctypes.PyDLL(None).sleep(5)
"""


def test_a_job_that_stands_still_is_flagged_and_its_stacks_are_in_the_log(shop: JobShop) -> None:
    spec = quick_spec(
        system={"simulator": {"entry": "idle:Idle"}},
        files=["idle.py"],
        training={"cycles": 1, "simulators": 1, "decisions_per_cycle": 1280, "rollout_fragment_length": 64},
        benchmark={"episodes_per_scenario": 1},
        health={"stall_seconds": 1},
    )
    job = shop.run(spec, {"idle.py": IDLE})
    assert job.wait() == 0
    first = next(body for body in job.bodies if isinstance(body, Flag))
    assert (first.flag, first.action, 0 < first.step <= 300) == ("stall", "warn", True)
    assert "'training'" in first.text
    assert any("goes on after" in line for line in job.logs())
    # The first stall by the thread that looks; the second, in which no thread can run, by the timer below Python.
    assert "in step" in job.output()
    assert "in wait_with_the_interpreter_held" in job.output()
