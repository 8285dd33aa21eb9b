"""Drain, stop, cancel, revoke and lost contact, in mid-job and between offer and accept."""

import threading
import time


def mode(ada, worker, word):
    return ada.send("POST", f"/v1/workers/{worker.worker_id}/{word}")


def test_a_drain_overtakes_an_offer_in_flight(hand, worker, ada):
    job_id = hand.submit()
    offer = hand.offer(worker)
    mode(ada, worker, "drain")
    refused = hand.accept(worker, offer["attempt_id"], offer["epoch"])
    assert (refused.status_code, refused.json()["code"]) == (409, "offer-expired")
    assert hand.job(job_id)["state"] == "queued"
    assert hand.offer(worker, 0.2) is None


def test_a_stop_reaches_the_parked_poll_at_once(hand, worker, ada):
    hand.poll(worker, 0)
    answers = []
    parked = threading.Thread(target=lambda: answers.append((hand.poll(worker, 20), time.monotonic())))
    parked.start()
    time.sleep(0.3)
    asked = time.monotonic()
    mode(ada, worker, "stop")
    parked.join(20)
    answer, at = answers[0]
    assert answer.json()["control"]["console_mode"] == "stop"
    assert at - asked < 1.0


def test_a_stopped_job_goes_on_elsewhere_from_its_checkpoint(hand, worker, other_worker, ada):
    job_id = hand.submit()
    grant = hand.take(worker)
    saved = b"state at step 4096"
    sha256 = hand.upload(worker, grant, saved, kind="checkpoint", name="step-4096.safetensors", step=4096)
    assert hand.release(worker, grant, checkpoint=sha256, step=4096).status_code == 204
    assert hand.release(worker, grant, checkpoint=sha256, step=4096).status_code == 204
    waiting = hand.job(job_id)
    assert waiting["reason"].startswith("worker stopped, checkpoint at step 4,096; ")
    assert waiting["step"] == 4096
    again = hand.take(other_worker)
    point = again.accepted["resume_from"]
    assert (point["sha256"], point["step"], point["attempt_id"]) == (sha256, 4096, grant.id)
    assert again.accepted["attempt"] == 2
    assert other_worker.call("GET", f"/v1/attempts/{again.id}/inputs/{sha256}").content == saved
    late = hand.events(worker, grant, 0, [hand.metric(1, loss=1.0)])
    assert (late.status_code, late.json()["code"], late.json()["action"]) == (409, "lease-superseded", "stop_attempt")
    assert worker.call("GET", f"/v1/attempts/{grant.id}/inputs/{sha256}").json()["code"] == "no-lease"


def test_a_stopped_job_shows_the_progress_of_its_checkpoint_until_its_next_attempt_goes_beyond(
    hand, worker, other_worker, coordinator
):
    job_id = hand.submit()
    grant = hand.take(worker)
    sha256 = hand.upload(worker, grant, b"state", kind="checkpoint", name="step-300.safetensors", step=300)
    reached = {"t": "s", "ts": 1.0, "phase": "training", "step": 400, "progress": 0.8, "eta_s": 9.0}
    hand.events(worker, grant, 0, [reached])
    hand.release(worker, grant, checkpoint=sha256, step=300)
    waiting = hand.job(job_id)
    assert (waiting["state"], waiting["step"], round(waiting["progress"], 6)) == ("queued", 300, 0.6)
    again = hand.take(other_worker)
    hand.beat(other_worker, again, 1, step=0, pct=0.0)  # it has not read the checkpoint yet
    coordinator.do(coordinator.services.queue.leases.flush())
    running = hand.job(job_id)
    assert (running["state"], running["step"], round(running["progress"], 6)) == ("running", 300, 0.6)


def test_a_cancellation_reaches_poll_and_heartbeat_and_ends_with_the_report(hand, worker):
    job_id = hand.submit()
    grant = hand.take(worker)
    lease = {"attempt_id": grant.id, "epoch": grant.epoch}
    answers = []
    parked = threading.Thread(target=lambda: answers.append(hand.poll(worker, 20, free_slots=0, leases=[lease])))
    parked.start()
    time.sleep(0.3)
    assert hand.cancel(job_id).json()["state"] == "canceling"
    parked.join(20)
    assert answers[0].json()["leases"] == [{"attempt_id": grant.id, "verdict": "cancel", "ttl": 300.0}]
    assert hand.verdict(worker, grant) == "cancel"
    assert "waiting for the worker" in hand.job(job_id)["reason"]
    assert hand.complete(worker, grant, 0, "canceled").json() == {"recorded": "canceled"}
    ended = hand.job(job_id)
    assert (ended["state"], ended["reason"]) == ("canceled", "cancelled by ada@example.org")
    assert hand.cancel(job_id).json()["code"] == "wrong-state"


def test_accepting_a_job_cancelled_meanwhile_is_gone(hand, worker):
    job_id = hand.submit()
    offer = hand.offer(worker)
    hand.cancel(job_id)
    refused = hand.accept(worker, offer["attempt_id"], offer["epoch"])
    assert (refused.status_code, refused.json()["code"]) == (410, "job-canceled")


def test_a_declined_job_goes_to_another_worker_and_counts_no_attempt(hand, worker, other_worker):
    job_id = hand.submit()
    offer = hand.offer(worker)
    body = {"epoch": offer["epoch"], "reason": "disk full", "retry_after_s": 60}
    assert worker.call("POST", f"/v1/attempts/{offer['attempt_id']}/decline", body).status_code == 204
    assert hand.offer(worker, 0.3) is None
    assert hand.take(other_worker).job_id == job_id
    assert [attempt["ordinal"] for attempt in hand.job(job_id)["attempts"]] == [1]


def test_a_worker_that_keeps_refusing_a_job_is_asked_less_and_less(start_coordinator, hand_of):
    coordinator = start_coordinator()
    hand = hand_of(coordinator.person("ada@example.org"))
    worker = coordinator.worker(hand.person)
    hand.submit()
    for pause_s in (5, 10, 20):
        offer = hand.offer(worker)
        body = {"epoch": offer["epoch"], "reason": "no such simulator"}
        assert worker.call("POST", f"/v1/attempts/{offer['attempt_id']}/decline", body).status_code == 204
        coordinator.forward(pause_s - 2)
        assert hand.offer(worker, 0.2) is None
        coordinator.forward(3)


def test_revoking_frees_the_job_before_the_click_is_answered(hand, worker, other_worker, ada):
    job_id = hand.submit()
    grant = hand.take(worker)
    assert ada.send("POST", f"/v1/workers/{worker.worker_id}/revoke").status_code == 200
    refused = hand.beat(worker, grant)
    assert (refused.status_code, refused.json()["code"]) == (401, "worker-revoked")
    assert refused.json()["signed"]
    assert hand.take(other_worker).job_id == job_id


def test_the_last_checkpoint_survives_a_crash(hand, worker):
    job_id = hand.submit()
    grant = hand.take(worker)
    sha256 = hand.upload(worker, grant, b"at 10", kind="checkpoint", name="a", step=10)
    hand.upload(worker, grant, b"at 20", kind="checkpoint", name="b", step=20)
    assert hand.release(worker, grant, "crash").status_code == 204
    assert hand.job(job_id)["reason"].startswith("worker crashed, checkpoint at step 20")
    point = hand.take(worker).accepted["resume_from"]
    assert point["step"] == 20
    assert point["sha256"] != sha256


def test_what_a_new_connection_does_not_hold_is_released_at_once(hand, worker):
    job_id = hand.submit()
    grant = hand.take(worker)
    held = [{"attempt_id": grant.id, "epoch": 1, "phase": "running", "next_seq": 0}]
    stranger = {"attempt_id": "att_" + "0" * 32, "epoch": 1, "phase": "running", "next_seq": 0}
    verdicts = worker.connect(session_seq=2, held=[*held, stranger]).verdicts
    assert [verdict.verdict for verdict in verdicts] == ["continue", "keep_unknown"]
    worker.connect(session_seq=3)
    assert hand.job(job_id)["reason"].startswith("worker came back without it")


def test_an_ended_job_is_tried_again_from_its_checkpoint_or_from_scratch(hand, worker, ada):
    job_id = hand.submit()
    grant = hand.take(worker)
    assert ada.send("POST", f"/v1/jobs/{job_id}/retry").json()["code"] == "wrong-state"
    hand.upload(worker, grant, b"at 10", kind="checkpoint", name="a", step=10)
    hand.fail(worker, grant, "exception")
    failed = hand.job(job_id)
    assert (failed["state"], failed["reason"]) == ("failed", "failed: exception: it broke")
    assert failed["attempts"][0]["error_class"] == "exception"
    ada.send("POST", f"/v1/jobs/{job_id}/retry")
    second = hand.take(worker)
    assert (second.accepted["attempt"], second.accepted["resume_from"]["step"]) == (2, 10)
    hand.fail(worker, second, "exception")
    ada.send("POST", f"/v1/jobs/{job_id}/retry", {"from": "scratch"})
    assert hand.take(worker).accepted["resume_from"] is None


def test_lost_contact_is_noticed_and_forgiven(start_coordinator, hand_of):
    coordinator = start_coordinator(reaper_s=0.1)
    hand = hand_of(coordinator.person("ada@example.org"))
    worker = coordinator.worker(hand.person)
    job_id = hand.submit()
    grant = hand.take(worker)
    coordinator.forward(316)
    wait_for(lambda: hand.job(job_id)["state"] == "queued")
    shown = hand.job(job_id)
    assert shown["attempts"][0]["state"] == "lost"
    assert "lost contact with" in shown["reason"]
    assert hand.verdict(worker, grant) == "revived"
    assert hand.job(job_id)["state"] == "running"


def test_a_lost_attempt_that_nobody_replaced_still_gets_its_inputs(start_coordinator, hand_of):
    coordinator = start_coordinator(reaper_s=0.1)
    hand = hand_of(coordinator.person("ada@example.org"))
    worker = coordinator.worker(hand.person)
    job_id = hand.submit()
    first = hand.take(worker)
    sha256 = hand.upload(worker, first, b"state", kind="checkpoint", name="step-1.safetensors", step=1)
    assert hand.release(worker, first, checkpoint=sha256, step=1).status_code == 204
    second = hand.take(worker)
    coordinator.forward(316)
    wait_for(lambda: hand.job(job_id)["state"] == "queued")
    assert worker.call("GET", f"/v1/attempts/{second.id}/inputs/{sha256}").content == b"state"
    assert hand.job(job_id)["state"] == "queued", "to read is not to own"
    assert hand.verdict(worker, second) == "revived"


def test_a_restart_keeps_everything_acknowledged_and_ends_nothing(start_coordinator, hand_of):
    coordinator = start_coordinator()
    hand = hand_of(coordinator.person("ada@example.org"))
    worker = coordinator.worker(hand.person)
    job_id = hand.submit()
    grant = hand.take(worker)
    assert hand.events(worker, grant, 0, [hand.metric(1, loss=1.0)]).json() == {"next_seq": 1}
    coordinator.close()
    again = hand_of(start_coordinator().person("ada@example.org"))
    (attempt,) = again.job(job_id)["attempts"]
    assert (attempt["state"], attempt["next_seq"]) == ("running", 1)


def wait_for(true, seconds=15.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
