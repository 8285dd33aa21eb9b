"""Jobs as people and their scripts handle them: submitting, listing, following."""

import threading
import time

import pytest


def test_a_bad_spec_names_every_field_at_fault(hand, ada):
    text = hand.spec(training={"cycles": 0}, limits={"max_runtime_minutes": 0}, colour="red")
    refused = ada.send("POST", "/v1/jobs", {"spec": text})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad-spec")
    fields = {error["field"] for error in refused.json()["errors"]}
    assert {"training.cycles", "limits.max_runtime_minutes", "colour"} <= fields


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"'])
def test_what_is_no_spec_at_all_is_refused_in_words(ada, text):
    refused = ada.send("POST", "/v1/jobs", {"spec": text})
    assert (refused.status_code, refused.json()["code"]) == (422, "bad-spec")


def test_a_resend_makes_no_second_job(hand, ada):
    body = {"spec": hand.spec()}
    first = ada.send("POST", "/v1/jobs", body, Idempotency_Key="k-1").json()
    assert ada.send("POST", "/v1/jobs", body, Idempotency_Key="k-1").json() == first
    other = ada.send("POST", "/v1/jobs", {"spec": hand.spec(name="other")}, Idempotency_Key="k-1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-mismatch")


def test_a_resent_retry_queues_a_job_once(hand, worker, ada):
    job_id = hand.submit(target={"worker": worker.approved.worker_name})
    hand.fail(worker, hand.take(worker), "exception")
    path = f"/v1/jobs/{job_id}/retry"
    first = ada.send("POST", path, {}, Idempotency_Key="again-1").json()
    assert (first["id"], first["state"]) == (job_id, "queued")
    hand.fail(worker, hand.take(worker), "exception")
    assert ada.send("POST", path, {}, Idempotency_Key="again-1").json() == first
    assert hand.job(job_id)["state"] == "failed"
    scratch = ada.send("POST", path, {"from": "scratch"}, Idempotency_Key="again-1")
    assert (scratch.status_code, scratch.json()["code"]) == (422, "idempotency-mismatch")


def test_an_input_that_was_never_uploaded_is_refused(hand, ada):
    ghost = [{"name": "code", "sha256": "0" * 64, "size": 1}]
    assert "/v1/blobs" in ada.send("POST", "/v1/jobs", {"spec": hand.spec(), "inputs": ghost}).json()["detail"]
    missing = ada.send("POST", "/v1/jobs", {"spec": hand.spec(files=["env.py"])})
    assert missing.json()["errors"][0]["field"] == "files"


def test_the_list_pages_from_the_newest_on_and_filters(hand, ada):
    made = [hand.submit(name=f"job {number}") for number in range(5)]
    page = ada.send("GET", "/v1/jobs?state=queued&limit=2").json()
    assert [job["id"] for job in page["items"]] == [made[4], made[3]]
    rest = ada.send("GET", f"/v1/jobs?state=queued&limit=10&after={page['next']}").json()
    assert ([job["id"] for job in rest["items"]], rest["next"]) == ([made[2], made[1], made[0]], None)
    assert ada.send("GET", "/v1/jobs?state=sleeping").json()["code"] == "invalid-request"
    assert ada.send("GET", "/v1/jobs?limit=many").json()["code"] == "invalid-request"
    assert ada.send("GET", "/v1/jobs/job_0").status_code == 404


def test_a_waiting_job_says_why(hand, worker, ada):
    job_id = hand.submit(target={"worker": worker.approved.worker_name})
    ada.send("POST", f"/v1/workers/{worker.worker_id}/drain")
    assert hand.job(job_id)["reason"] == "waiting for an available worker: 1 draining"
    nobody = hand.submit(target={"worker": "nobody"})
    assert "is not nobody" in hand.job(nobody)["reason"]


def test_priority_goes_before_age(hand, worker):
    hand.submit(name="old")
    urgent = hand.submit(name="urgent", priority=5)
    assert hand.take(worker).job_id == urgent


def test_changes_are_followed_without_a_gap(hand, ada):
    now = ada.send("GET", "/v1/changes?after=0").json()["next"]
    found = []
    waiting = threading.Thread(target=lambda: found.append(ada.send("GET", f"/v1/changes?after={now}&wait=20").json()))
    waiting.start()
    time.sleep(0.3)
    job_id = hand.submit()
    waiting.join(20)
    (change,) = found[0]["items"]
    assert (change["subject"], change["id"], change["detail"]["state"]) == ("job", job_id, "queued")
    assert ada.send("GET", f"/v1/changes?after={found[0]['next'] + 10**6}").json()["resync"] is True


def test_changes_of_another_account_are_not_seen(hand, coordinator):
    coordinator.account("mallory@example.org")
    mallory = coordinator.person("mallory@example.org")
    hand.submit()
    assert mallory.send("GET", "/v1/changes?after=0").json()["items"] == []
    assert mallory.send("GET", "/v1/jobs").json()["items"] == []
