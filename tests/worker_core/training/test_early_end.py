"""Training that ends early because its policy does not get better."""

from typing import Any

from training_core import JobShop, quick_spec, wait_until

from worker_core.wire.frames import ArtifactReady, Order

# So slow that a greedy policy plays the same in every evaluation.
STANDING: dict[str, Any] = {
    "ppo": {"learning_rate": 1e-9, "n_epochs": 1},
    "training": {"cycles": 12, "simulators": 3, "decisions_per_cycle": 128, "rollout_fragment_length": 64},
    "stop": {"patience_evals": 2},
}


def evaluations(metrics: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, float]]:
    return [(step, float(values["eval/mean_reward"])) for step, values in metrics if "eval/mean_reward" in values]


def test_training_ends_after_as_many_evaluations_without_a_better_return(shop: JobShop) -> None:
    job = shop.run(quick_spec(**STANDING))
    assert job.done().outcome == "succeeded", job.output()
    told = evaluations(job.metrics())
    assert [step for step, _ in told] == [384, 768, 1152]  # one at the end of each cycle of 3 x 128 decisions
    assert len({value for _, value in told}) == 1
    assert job.done().usage.steps == 1152
    assert job.logs()[1].startswith("training ends early at decision 1,152: the last 2 evaluations were not above")
    assert {artifact.name for artifact in job.artifacts("result")} >= {"policy.safetensors", "benchmark.json"}


def test_a_training_that_ended_early_stays_ended_when_it_is_resumed(shop: JobShop) -> None:
    straight = shop.run(quick_spec(**STANDING))
    last = straight.artifacts("checkpoint")[-1]
    assert isinstance(last, ArtifactReady)
    again = shop.resume(quick_spec(**STANDING), straight.workspace / last.path, last.sha256, last.step or 0)
    assert again.wait() == 0
    assert again.done().usage.steps == 0
    weights = "results/policy.safetensors"
    assert (again.workspace / weights).read_bytes() == (straight.workspace / weights).read_bytes()


def test_without_patience_nothing_is_evaluated_on_the_way(shop: JobShop) -> None:
    assert evaluations(shop.run(quick_spec()).metrics()) == []


SLOW_TO_EVALUATE = """
import time
import gymnasium as gym
import numpy as np

class Walk(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    played = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps, self.wait = 0.0, 0, 0.0
        if seed == 1000:
            Walk.played += 1
            if Walk.played == 3:  # the first is the benchmark of the untrained policy
                print("evaluates", flush=True)
                self.wait = 0.05
        return np.array([self.at], np.float32), {}

    def step(self, action):
        time.sleep(self.wait)
        self.at = float(np.clip(self.at + (0.5 if action else -0.5) + self.np_random.normal(0, 0.1), -9, 9))
        self.steps += 1
        return np.array([self.at], np.float32), self.at, self.steps >= 20, False, {}
"""


def test_a_job_stopped_while_it_evaluates_ends_as_one_that_was_not_stopped(shop: JobShop) -> None:
    spec = quick_spec(
        training={"cycles": 5, "simulators": 2, "decisions_per_cycle": 128, "rollout_fragment_length": 64},
        system={"simulator": {"entry": "walk:Walk"}},
        files=["walk.py"],
        ppo={"learning_rate": 0.01},
        stop={"patience_evals": 2},
    )
    code = {"walk.py": SLOW_TO_EVALUATE}
    straight = shop.run(spec, code)
    assert straight.done().outcome == "succeeded", straight.output()
    first = shop.start(shop.workspace(spec, code))
    wait_until(lambda: "evaluates" in first.output())
    first.order(Order(do="stop", grace_s=30))
    assert (first.wait(), first.done().outcome) == (0, "stopped")
    saved = first.artifacts("checkpoint")[-1]
    second = shop.resume(spec, first.workspace / saved.path, saved.sha256, saved.step or 0, code)
    assert second.wait() == 0, second.output()

    def course(metrics: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
        return [(step, {name: value for name, value in told.items() if name != "time/fps"}) for step, told in metrics]

    assert course([*first.metrics(), *second.metrics()]) == course(straight.metrics())
    for result in ("policy.safetensors", "learning_curves.png"):
        assert (second.workspace / "results" / result).read_bytes() == (
            straight.workspace / "results" / result
        ).read_bytes()
