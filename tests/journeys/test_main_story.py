"""From a fresh home to a trained policy, typed as a person would type it."""

import json
import subprocess
from pathlib import Path

from tests.journeys.conftest import EMAIL, GUARD_S, Stack, job_spec, stoker
from worker_core.wire.spec import canonical_text

STATUS_KEYS = {
    "state", "reasons", "mode", "worker", "coordinator", "contact_age_s", "authorization", "job", "gpus", "outbox",
    "credential_store", "pid",
}  # fmt: skip
SHOW_KEYS = {"id", "state", "kind", "name", "attempt", "worker", "reason", "created_at"}


def _pair_and_approve(stack: Stack, home: Path) -> None:
    """`stoker pair` in one terminal, `stoker approve` in another."""
    command = stoker("pair", "--coordinator", stack.coordinator.url, "--email", EMAIL, "--name", "box", "--json")
    with subprocess.Popen(command, env=stack.environment(home), stdout=subprocess.PIPE, text=True) as pairing:
        assert pairing.stdout is not None
        code = json.loads(pairing.stdout.readline())
        assert set(code) == {"user_code", "verification_uri", "expires_in", "fingerprint"}
        approved = stack.command("approve", code["user_code"], "--name", "the-box", "--extend", "--json")
        assert (approved.code, approved.document["name"]) == (0, "the-box")
        decided = json.loads(pairing.stdout.readline())
        assert (decided["state"], decided["worker_name"]) == ("approved", "the-box")
        assert pairing.wait(GUARD_S) == 0


def test_pair_approve_train_and_bring_the_result_home(stack: Stack, tmp_path: Path) -> None:
    home = tmp_path / "box"
    _pair_and_approve(stack, home)
    core = stack.start_core(home)
    core.wait_until(lambda status: status.state == "available", "the worker is available")

    status = stack.command("status", "--json", home=home)
    assert status.code == 0
    assert set(status.document) >= STATUS_KEYS
    assert status.document["credential_store"] == "file"
    assert status.document["authorization"]["extend_while_healthy"] is True
    (shown,) = stack.command("workers", "--json").document
    assert (shown["name"], shown["state"]) == ("the-box", "available")

    spec = tmp_path / "job.json"
    spec.write_text(canonical_text(job_spec("first")))
    submitted = stack.command("submit", str(spec), "--wait", "--json")
    first, last = submitted.documents
    assert (submitted.code, last["state"], last["job_id"]) == (0, "succeeded", first["job_id"])
    job_id = first["job_id"]

    job = stack.command("job", "show", job_id, "--json").document
    assert set(job) >= SHOW_KEYS
    assert (job["state"], job["attempt"], job["worker"], job["step"]) == ("succeeded", 1, "the-box", 8000)
    assert stack.command("jobs", "--json").document[0]["id"] == job_id

    points = stack.command("job", "metrics", job_id, "--json").documents
    assert all(set(point) == {"name", "step", "value", "attempt", "time"} for point in points)
    assert {"rollout/ep_rew_mean", "train/loss", "time/fps"} <= {point["name"] for point in points}

    brought = stack.command("job", "artifacts", job_id, "--to", str(tmp_path / "results"), "--json")
    assert brought.code == 0
    names = {path.name for path in (tmp_path / "results").iterdir()}
    assert names == {"policy.safetensors", "policy.json", "model_card.json", "benchmark.json"} | {
        "benchmark.csv",
        "learning_curves.png",
        "session.jsonl",
    }
    assert stack.command("job", "logs", job_id).code == 0
    core.wait_until(lambda status: status.state == "available" and status.job is None, "it is available again")

    for words in (("status",), ("workers",), ("jobs",), ("job", "show", job_id), ("job", "metrics", job_id)):
        shown = stack.command(*words, home=home)
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.strip()
