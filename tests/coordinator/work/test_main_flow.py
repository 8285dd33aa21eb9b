"""The main job over HTTP: submit, offer, accept, train, deliver, complete."""

import threading
import time

from joserfc import jws
from joserfc.jwk import OKPKey

POLICY = b"weights" * 1000


def test_a_job_goes_from_submit_to_result(hand, worker, ada):
    job_id = hand.submit(name="first light")
    assert hand.job(job_id)["state"] == "queued"
    grant = hand.take(worker)
    assert (grant.job_id, grant.epoch, grant.accepted["attempt"]) == (job_id, 1, 1)
    shown = hand.job(job_id)
    assert (shown["state"], shown["attempt"], shown["reason"]) == ("running", 1, "")

    status = {"t": "s", "ts": 1.0, "phase": "training", "step": 2048, "progress": 0.5, "eta_s": 9.0}
    batch = [hand.metric(2048, loss=0.5), hand.log_line("hello"), status]
    assert hand.events(worker, grant, 0, batch).json() == {"next_seq": 3}
    shown = hand.job(job_id)
    assert (shown["step"], shown["progress"], shown["phase"]) == (2048, 0.5, "training")

    sha256 = hand.upload(worker, grant, POLICY)
    answer = hand.complete(worker, grant, 3, artifacts=[sha256])
    assert answer.json() == {"recorded": "succeeded"}
    done = hand.job(job_id)
    assert (done["state"], done["reason"], done["progress"]) == ("succeeded", "succeeded", 1.0)

    (artifact,) = ada.send("GET", f"/v1/jobs/{job_id}/artifacts").json()["items"]
    assert (artifact["name"], artifact["kind"], artifact["state"]) == ("policy.safetensors", "result", "ready")
    download = ada.send("GET", f"/v1/artifacts/{artifact['id']}")
    assert download.content == POLICY
    assert download.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in download.headers["content-security-policy"]


def test_an_offer_is_signed_with_the_pinned_key_and_names_what_would_run(hand, worker, coordinator):
    code = hand.blob("code", b"def make(): ...")
    job_id = hand.submit(inputs=[code], files=["env.py"])
    hand.poll(worker, 0)
    token = hand.poll(worker).json()["offer"]
    key = OKPKey.import_key(worker.approved.coordinator_jwks["keys"][0])
    signed = jws.deserialize_compact(token, key, algorithms=["Ed25519"])
    offer = __import__("json").loads(signed.payload)
    assert offer["typ"] == "offer"
    assert (offer["worker_id"], offer["thumbprint"]) == (worker.worker_id, worker.thumbprint)
    assert (offer["job_id"], offer["inputs"]) == (job_id, [code])
    accepted = hand.accept(worker, offer["attempt_id"], offer["epoch"]).json()
    digest = __import__("hashlib").sha256(accepted["spec"].encode()).hexdigest()
    assert digest == offer["spec_sha256"]
    path = f"/v1/attempts/{offer['attempt_id']}/inputs/{code['sha256']}"
    assert worker.call("GET", path).content == b"def make(): ..."
    partial = worker.call("GET", path, headers={"Range": "bytes=4-"})
    assert (partial.status_code, partial.content) == (206, b"make(): ...")


def test_a_parked_poll_is_answered_the_moment_a_job_is_queued(hand, worker):
    hand.poll(worker, 0)
    found = []
    waiting = threading.Thread(target=lambda: found.append((hand.offer(worker, 20), time.monotonic())))
    waiting.start()
    time.sleep(0.3)
    submitted = time.monotonic()
    job_id = hand.submit()
    waiting.join(20)
    offer, at = found[0]
    assert offer["job_id"] == job_id
    assert at - submitted < 1.0


def test_an_offer_is_repeated_to_its_worker_and_to_nobody_else(hand, worker, other_worker):
    hand.submit()
    first = hand.offer(worker)
    assert hand.offer(other_worker, 0.2) is None
    assert hand.offer(worker)["attempt_id"] == first["attempt_id"]


def test_accepting_twice_answers_the_same(hand, worker):
    hand.submit()
    offer = hand.offer(worker)
    first = hand.accept(worker, offer["attempt_id"], offer["epoch"])
    again = hand.accept(worker, offer["attempt_id"], offer["epoch"])
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()


def test_a_busy_a_draining_and_a_full_worker_get_no_offer(hand, worker):
    hand.poll(worker, 0)
    hand.submit()
    assert hand.poll(worker, 0.2, free_slots=0).status_code == 204
    assert hand.poll(worker, 0.2, local_mode="drain").status_code == 204
    assert hand.offer(worker) is not None


def test_a_job_goes_only_where_it_may(hand, worker, coordinator, ada):
    unscoped = coordinator.worker(ada, job_scopes=("repository",))
    hand.submit(target={"worker": worker.approved.worker_name})
    big = hand.submit(target={"min_ram_gb": 4096})
    assert hand.offer(unscoped, 0.2) is None
    assert hand.offer(worker) is not None
    assert "no worker fits" in hand.job(big)["reason"]


def test_a_newer_poll_answers_the_older_one_with_nothing(hand, worker):
    hand.poll(worker, 0)
    answers = []
    older = threading.Thread(target=lambda: answers.append(hand.poll(worker, 20).status_code))
    older.start()
    time.sleep(0.3)
    assert hand.poll(worker, 0).status_code == 204
    older.join(5)
    assert answers == [204]


def test_a_heartbeat_tells_progress_in_percent(hand, worker):
    job_id = hand.submit()
    grant = hand.take(worker)
    assert hand.beat(worker, grant, step=512, pct=40.0).status_code == 200
    deadline = time.monotonic() + 10  # renewals are written together, within a second
    while (shown := hand.job(job_id))["step"] == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (shown["step"], shown["progress"]) == (512, 0.4)


def test_a_heartbeat_that_knows_no_step_yet_does_not_turn_progress_back(hand, worker, coordinator):
    job_id = hand.submit()
    grant = hand.take(worker)
    hand.events(worker, grant, 0, [hand.metric(500, loss=1.0)])
    hand.beat(worker, grant, 1, step=0, pct=1.0)
    coordinator.do(coordinator.services.queue.leases.flush())
    assert (hand.job(job_id)["step"], hand.job(job_id)["progress"]) == (500, 0.01)
