"""Training that ends early because its policy does not get better."""

from typing import Any

from training_core import JobShop, quick_spec

from worker_core.wire.frames import ArtifactReady

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
