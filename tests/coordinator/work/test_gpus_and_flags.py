"""Jobs go where their GPU can do them, and what goes wrong in a training is kept with its step."""

import pytest

from worker_core.wire.failure_rules import RULES, RetryRule
from worker_core.wire.pairing import Gpu, Host
from worker_core.wire.vocabulary import FailureClass

CARD = Gpu(uuid="GPU-1", name="Old Card", memory_bytes=16 << 30)


def with_card(worker, card=CARD):
    """Let a worker connect again, as one that has this GPU."""
    host = Host(os="Linux", arch="x86_64", hostname="bench-1", gpus=(card,), ram_gb=32.0, cpus=8)
    capabilities = {"host": host, "kinds": ("rl-session",), "credential_store": "file"}
    worker.instance_id += "x"
    worker.connect(session_seq=2, prev_instance_ids=(worker.instance_id[:-1],), capabilities=capabilities)
    return worker


def flag(step, name="nan", action="warn", text="the loss is nan"):
    return {"t": "flag", "ts": 1.0, "step": step, "flag": name, "text": text, "action": action}


def test_a_job_for_a_gpu_waits_while_that_gpu_is_held_back_and_says_so(hand, worker):
    with_card(worker)
    job_id = hand.submit(target={"gpu": {"count": 1}})
    assert hand.poll(worker, wait=0.3, held_gpus=["GPU-1"]).status_code in (200, 204)
    assert hand.poll(worker, wait=0.3, held_gpus=["GPU-1"]).status_code == 204
    assert "lacks a GPU" in hand.job(job_id)["reason"]
    plain = hand.submit()
    assert hand.poll(worker, held_gpus=["GPU-1"]).json()["offer"]
    assert hand.job(plain)["offered"]


def test_a_job_never_goes_again_to_a_model_that_it_has_no_kernels_for(hand, worker, other_worker):
    with_card(worker)
    job_id = hand.submit()
    hand.fail(worker, hand.take(worker), "unsupported-gpu")
    job = hand.job(job_id)
    assert job["state"] == "queued"
    assert hand.offer(worker, wait=0.3) is None
    with_card(other_worker, Gpu(uuid="GPU-2", name="New Card", memory_bytes=16 << 30))
    assert hand.take(other_worker).job_id == job_id


def test_a_job_whose_device_was_lost_goes_elsewhere_first(hand, worker, other_worker, coordinator):
    job_id = hand.submit()
    hand.fail(worker, hand.take(worker), "device-lost")
    assert hand.offer(worker, wait=0.3) is None
    again = hand.take(other_worker)
    assert again.job_id == job_id
    hand.fail(other_worker, again, "driver-mismatch")
    assert hand.offer(other_worker, wait=0.3) is None
    coordinator.forward(61)
    assert hand.take(worker).job_id == job_id


@pytest.mark.parametrize(("failure", "retry"), [(name, rule.retry) for name, rule in RULES.items()])
def test_each_class_of_failure_is_tried_again_by_its_rule_and_a_final_one_names_its_cure(
    hand, worker, failure: FailureClass, retry: RetryRule
):
    job_id = hand.submit(target={"worker": worker.approved.worker_name})
    hand.fail(worker, hand.take(worker), failure)
    job = hand.job(job_id)
    assert job["state"] == ("failed" if retry == "never" else "queued")
    assert job["cure"] == (RULES[failure].cure if retry == "never" else "")


def test_flags_are_shown_with_their_step_and_attempt_and_stand_in_the_log(hand, worker, ada):
    job_id = hand.submit()
    first = hand.take(worker)
    hand.events(worker, first, 0, [hand.metric(5, a=1.0), flag(10), flag(20, "gradient", "rollback", "too steep")])
    hand.fail(worker, first, "signal", final_seq=3)
    second = hand.take(worker)
    hand.events(worker, second, 0, [flag(30, "stall", "stop", "it stands still")])
    shown = [(one["attempt"], one["step"], one["flag"], one["action"]) for one in hand.job(job_id)["flags"]]
    assert shown == [(1, 10, "nan", "warn"), (1, 20, "gradient", "rollback"), (2, 30, "stall", "stop")]
    lines = [line["text"] for line in ada.send("GET", f"/v1/jobs/{job_id}/logs").json()["items"]]
    assert lines == ["step 10: the loss is nan", "step 20: too steep", "step 30: it stands still"]
    listed = ada.send("GET", "/v1/jobs?state=running").json()["items"][0]
    assert [one["step"] for one in listed["flags"]] == [30]


def test_only_the_newest_flags_are_kept_beside_the_attempt(hand, worker):
    job_id = hand.submit()
    grant = hand.take(worker)
    hand.events(worker, grant, 0, [flag(step) for step in range(80)])
    assert [one["step"] for one in hand.job(job_id)["flags"]] == list(range(30, 80))


def test_a_job_tried_again_by_a_person_may_go_to_the_model_it_once_had_no_kernels_for(hand, worker):
    with_card(worker)
    job_id = hand.submit(retry={"max_attempts": 1})
    hand.fail(worker, hand.take(worker), "unsupported-gpu")
    assert hand.job(job_id)["state"] == "failed"
    hand.person.send("POST", f"/v1/jobs/{job_id}/retry")
    assert hand.take(worker).job_id == job_id, "a PyTorch that supports the card may have been installed meanwhile"
