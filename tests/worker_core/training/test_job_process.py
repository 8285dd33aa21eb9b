"""The job process as the core sees it: what it sends, what it leaves, how it ends."""

import csv
import hashlib
import json
import signal
import time
from pathlib import Path

import msgspec
import pytest
from safetensors.numpy import load_file
from training_core import JobShop, quick_spec, wait_until

from worker_core.wire.events import CheckpointSaved, Metric, Status
from worker_core.wire.frames import LAST_WORD_FILE, ArtifactReady, Done, Order

LONG = {"cycles": 10_000, "simulators": 2, "rollout_fragment_length": 64}
SELDOM = {"every_minutes": 100}


def test_a_job_trains_and_leaves_everything_it_promises(shop: JobShop) -> None:
    job = shop.run(quick_spec())
    assert (job.wait(), job.done().outcome) == (0, "succeeded")
    assert job.phases() == ["starting", "benchmark untrained", "training", "benchmark trained", "exporting"]
    assert job.ids == list(range(1, len(job.ids) + 1))
    assert isinstance(job.bodies[-1], Done)
    names = [artifact.name for artifact in job.artifacts("result")]
    told = ["policy.safetensors", "policy.json", "model_card.json", "benchmark.json", "benchmark.csv"]
    assert names == [*told, "learning_curves.png", "session.jsonl"]
    for artifact in (*job.artifacts("result"), *job.artifacts("checkpoint")):
        data = (job.workspace / artifact.path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (artifact.size, artifact.sha256)
    usage = job.done().usage
    assert usage.steps == 4_800
    assert usage.seconds > 0
    assert usage.peak_rss_bytes > 10_000_000


def test_metrics_carry_their_promised_names(shop: JobShop) -> None:
    job = shop.run(quick_spec())
    first, *training, last = job.metrics()
    ours = {"mean", "median", "std", "min", "max", "ci95"}
    assert (first[0], set(first[1])) == (0, {f"benchmark/initial/policy/reset/{name}" for name in ours})
    assert (last[0], set(last[1])) == (4_800, {f"benchmark/policy/reset/{name}" for name in ours})
    wanted = {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps", "time/total_timesteps", "skill/policy/cycle"}
    assert wanted < set(training[-1][1])
    assert [step for step, _ in training] == sorted({step for step, _ in training})
    progress = [body.progress for body in job.bodies if isinstance(body, Status)]
    assert progress == sorted(progress)


def test_the_learning_rate_falls_in_a_straight_line_to_the_last_planned_decision(shop: JobShop) -> None:
    rates = [
        (step, values["train/learning_rate"])
        for step, values in shop.run(quick_spec(ppo={"learning_rate": 0.01, "n_epochs": 1})).metrics()
        if "train/learning_rate" in values
    ]
    began = [0, *(step for step, _ in rates[:-1])]
    assert rates[-1][0] == 4_800
    assert [rate for _, rate in rates] == pytest.approx([0.01 * (1 - at / 4_800) for at in began])


def test_the_benchmark_says_what_was_gained_on_the_same_starts(shop: JobShop) -> None:
    job = shop.run(quick_spec())
    report = json.loads((job.workspace / "results" / "benchmark.json").read_text())
    before, after = (report[which]["policy"]["reset"] for which in ("initial", "final"))
    assert [episode["seed"] for episode in before["episodes"]] == [1000, 1001, 1002] == report["seeds"]
    assert [episode["seed"] for episode in after["episodes"]] == report["seeds"]
    assert report["return_before"] == before["aggregate"]["mean"]
    assert report["return_after"] == after["aggregate"]["mean"]
    assert report["steps_per_second"] > 0
    by_chance = report["random"]["policy"]["reset"]
    assert [episode["seed"] for episode in by_chance["episodes"]] == report["seeds"]
    assert report["return_of_chance"] == by_chance["aggregate"]["mean"]
    with (job.workspace / "results" / "benchmark.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["policy"], int(line["seed"])) for line in lines] == [
        (policy, seed) for policy in ("initial", "random", "final") for seed in report["seeds"]
    ]
    assert [float(line["return"]) for line in lines[-3:]] == [episode["return"] for episode in after["episodes"]]
    card = json.loads((job.workspace / "results" / "model_card.json").read_text())
    assert card["spec_sha256"] == hashlib.sha256((job.workspace / "spec.json").read_bytes()).hexdigest()
    assert (card["plan"]["skill"]["ppo"]["n_epochs"], card["lineage"]["attempt_id"]) == (3, "att_1")


def test_the_session_log_that_is_delivered_holds_all_that_was_told_before_it(shop: JobShop) -> None:
    job = shop.run(quick_spec())
    lines = [json.loads(line) for line in (job.workspace / "results" / "session.jsonl").read_text().splitlines()]
    assert (lines[0]["t"], lines[0]["attempt_id"]) == ("opened", "att_1")
    assert [(line["step"], line["values"]) for line in lines if line["t"] == "m"] == job.metrics()
    assert [line["text"] for line in lines if line["t"] == "l"] == job.logs()
    assert [line["phase"] for line in lines if line["t"] == "s"] == job.phases()[1:]
    delivered = [artifact.name for artifact in job.artifacts("result")]
    assert [line["name"] for line in lines if line["t"] == "artifact" and line["kind"] == "result"] == delivered[:-1]


def test_a_killed_job_leaves_its_session_log(shop: JobShop) -> None:
    job = shop.start(shop.workspace(quick_spec(training=LONG, checkpoint=SELDOM)))
    job.wait_for(lambda body: isinstance(body, Metric) and body.step > 0)
    job.kill()
    job.wait()
    whole = (job.workspace / "results" / "session.jsonl").read_bytes().rpartition(b"\n")[0]
    metrics = [line["step"] for line in map(json.loads, whole.splitlines()) if line["t"] == "m"]
    assert metrics[: len(job.metrics())] == [step for step, _ in job.metrics()]


def test_a_checkpoint_is_saved_on_request_and_announced_whole(shop: JobShop) -> None:
    job = shop.start(shop.workspace(quick_spec(training=LONG, checkpoint=SELDOM)))
    job.wait_for(lambda body: isinstance(body, Metric) and body.step > 0)
    job.order(Order(do="checkpoint", grace_s=10))
    saved = job.wait_for(lambda body: isinstance(body, CheckpointSaved) and body.step > 0)
    assert isinstance(saved, CheckpointSaved)
    announced = job.wait_for(lambda body: isinstance(body, ArtifactReady) and body.step == saved.step)
    assert isinstance(announced, ArtifactReady)
    latest = json.loads((job.workspace / "checkpoints" / "latest.json").read_text())
    assert latest == {"path": announced.path, "step": saved.step, "sha256": saved.sha256, "size": saved.size}


def test_a_stopped_job_saves_a_checkpoint_and_leaves(shop: JobShop) -> None:
    job = shop.start(shop.workspace(quick_spec(training=LONG, checkpoint=SELDOM)))
    job.wait_for(lambda body: isinstance(body, Metric) and body.step > 0)
    job.order(Order(do="stop", grace_s=20))
    assert job.wait() == 0
    assert job.done().outcome == "stopped"
    assert job.artifacts("checkpoint")[-1].step == job.done().usage.steps > 0


def test_a_short_grace_is_used_for_a_checkpoint_too(shop: JobShop) -> None:
    job = shop.start(shop.workspace(quick_spec(training=LONG, checkpoint={"grace_seconds": 300, "every_minutes": 100})))
    job.wait_for(lambda body: isinstance(body, Metric) and body.step > 0)
    job.order(Order(do="stop", grace_s=15))
    assert (job.wait(), job.done().outcome) == (0, "stopped")
    assert (job.artifacts("checkpoint")[-1].step or 0) > 0


def test_a_terminated_job_saves_a_checkpoint_and_leaves(shop: JobShop) -> None:
    job = shop.start(shop.workspace(quick_spec(training=LONG, checkpoint=SELDOM)))
    job.wait_for(lambda body: isinstance(body, Metric) and body.step > 0)
    job.process.send_signal(signal.SIGTERM)
    assert (job.wait(), job.done().outcome) == (0, "stopped")
    assert (job.artifacts("checkpoint")[-1].step or 0) > 0


def test_a_job_whose_core_is_gone_saves_a_checkpoint_and_leaves_with_75(shop: JobShop) -> None:
    job = shop.start(shop.workspace(quick_spec(training=LONG, checkpoint=SELDOM)))
    job.wait_for(lambda body: isinstance(body, Metric) and body.step > 0)
    job.close_orders()
    assert job.wait() == 75
    latest = json.loads((job.workspace / "checkpoints" / "latest.json").read_text())
    data = (job.workspace / latest["path"]).read_bytes()
    assert (latest["step"] > 0, hashlib.sha256(data).hexdigest()) == (True, latest["sha256"])


def test_a_job_waits_for_a_core_that_acknowledges_nothing(shop: JobShop) -> None:
    training = {"cycles": 8, "simulators": 1, "rollout_fragment_length": 8}
    job = shop.start(shop.workspace(quick_spec(training=training, ppo={"n_epochs": 1}, checkpoint=SELDOM)), acks=False)
    wait_until(lambda: len(job.bodies) >= 256)
    time.sleep(0.5)
    assert len(job.bodies) == 256
    assert job.process.poll() is None
    job.order(Order(ack=100))
    wait_until(lambda: len(job.bodies) == 356)


SLEEPER = """
import gymnasium, numpy, time

class Sleeper(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, after=0, seconds=0.0):
        self.steps, self.after, self.seconds = 0, after, seconds

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(1, numpy.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps > self.after:
            print("asleep")
            time.sleep(self.seconds)
        return numpy.zeros(1, numpy.float32), 0.0, False, self.steps % 20 == 0, {}
"""


def sleeper(after: int, seconds: float) -> dict[str, object]:
    simulator = {"entry": "sleeper:Sleeper", "init": {"after": after, "seconds": seconds}}
    return quick_spec(system={"simulator": simulator}, files=["sleeper.py"], training=LONG, checkpoint=SELDOM)


def test_a_job_that_prints_outlives_its_core_until_its_work_is_saved(shop: JobShop) -> None:
    job = shop.start(shop.workspace(sleeper(after=0, seconds=0.001), {"sleeper.py": SLEEPER}), piped=True)
    job.wait_for(lambda body: isinstance(body, Status) and body.phase == "training" and body.step > 0)
    job.vanish()
    assert job.wait() == 75
    assert json.loads((job.workspace / "checkpoints" / "latest.json").read_text())["step"] > 0
    assert not (job.workspace / LAST_WORD_FILE).exists()  # it did not fail


def test_a_simulator_that_hangs_makes_the_job_silent(shop: JobShop) -> None:
    job = shop.start(shop.workspace(sleeper(after=100, seconds=1000.0), {"sleeper.py": SLEEPER}))
    wait_until(lambda: "asleep" in job.output())
    time.sleep(0.3)
    heard = len(job.bodies)
    time.sleep(1.5)
    assert len(job.bodies) == heard


def test_a_slow_simulator_does_not_outlast_the_grace(shop: JobShop) -> None:
    spec = sleeper(after=200, seconds=0.2) | {"checkpoint": {"grace_seconds": 5}}
    job = shop.start(shop.workspace(spec, {"sleeper.py": SLEEPER}))
    wait_until(lambda: "asleep" in job.output())
    asked = time.monotonic()
    job.order(Order(do="stop", grace_s=3))
    assert job.wait() == 0
    assert time.monotonic() - asked < 9
    assert job.done().outcome == "stopped"


ASLEEP_ELSEWHERE = SLEEPER.replace("> self.after:", "> self.after and multiprocessing.parent_process() is not None:")


def test_a_simulator_that_hangs_in_another_process_does_not_outlast_the_grace(shop: JobShop) -> None:
    code = ASLEEP_ELSEWHERE.replace("import gymnasium", "import multiprocessing, gymnasium")
    spec = sleeper(after=100, seconds=1000.0) | {"checkpoint": {"grace_seconds": 5}}
    job = shop.start(shop.workspace(spec, {"sleeper.py": code}))
    try:
        wait_until(lambda: "asleep" in job.output(), within_s=20)
    except AssertionError:
        assert "one process" in "".join(job.logs())  # this machine has one core
        return
    asked = time.monotonic()
    job.order(Order(do="stop", grace_s=3))
    assert job.wait() == 0
    assert time.monotonic() - asked < 9
    assert job.done().outcome == "stopped"


def test_slow_work_is_told_of_at_least_every_few_seconds(shop: JobShop) -> None:
    job = shop.start(shop.workspace(sleeper(after=100, seconds=0.1), {"sleeper.py": SLEEPER}))
    wait_until(lambda: "asleep" in job.output())
    heard = len(job.bodies)
    time.sleep(3)
    statuses = [body for body in job.bodies[heard:] if isinstance(body, Status)]
    assert 2 <= len(statuses) <= 5
    assert len({status.step for status in statuses}) == len(statuses)


def test_nothing_is_written_outside_checkpoints_results_and_tmp_but_the_last_word(shop: JobShop) -> None:
    job = shop.run(quick_spec())
    made = {path.name for path in job.workspace.iterdir()}
    assert made == {"spec.json", "job.json", "stdout.txt", "checkpoints", "results", "last-word.json"}
    assert not list(job.workspace.rglob(".*"))


def test_a_large_policy_learns_with_torch_and_its_file_has_the_same_shape(shop: JobShop) -> None:
    spec = quick_spec(
        training={"cycles": 1, "simulators": 2, "decisions_per_cycle": 128}, benchmark={"episodes_per_scenario": 1}
    )
    spec["ppo"] = {"hidden": [512, 512], "n_epochs": 1, "minibatch_size": 256}
    job = shop.run(spec)
    assert job.done().outcome == "succeeded", job.output()
    weights = load_file(job.workspace / "results" / "policy.safetensors")
    assert {name: array.shape for name, array in weights.items()} == {
        "actor.0.weight": (512, 4), "actor.0.bias": (512,), "actor.1.weight": (512, 512),
        "actor.1.bias": (512,), "actor.2.weight": (2, 512), "actor.2.bias": (2,),
    }  # fmt: skip


def test_a_job_of_a_small_policy_never_loads_torch(shop: JobShop) -> None:
    watcher = "import atexit, sys\natexit.register(lambda: print('torch' in sys.modules))\n" + SLEEPER
    spec = sleeper(after=10**9, seconds=0) | {"training": {"cycles": 1, "max_episode_steps": 10}}
    job = shop.run(spec, {"sleeper.py": watcher})
    assert (job.done().outcome, job.output().split()) == ("succeeded", ["False"])


def test_unknown_kinds_of_orders_do_not_end_a_job(shop: JobShop, tmp_path: Path) -> None:
    job = shop.start(shop.workspace(quick_spec(training=LONG)))
    payload = msgspec.json.encode({"later": "word"})
    job.write(len(payload).to_bytes(4, "big") + payload)
    job.wait_for(lambda body: isinstance(body, Metric) and body.step > 1000)
    job.order(Order(do="stop", grace_s=20))
    assert job.wait() == 0
