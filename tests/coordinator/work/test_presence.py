"""Who is there and who has work never contradict each other."""

from typing import Any


def state_of(ada: Any, worker: Any) -> str:
    return ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["state"]


def test_after_hours_of_sleep_a_worker_is_there_before_it_is_offered_anything(
    hand: Any, worker: Any, ada: Any, coordinator: Any
) -> None:
    hand.poll(worker, 0)
    coordinator.forward(6 * 3600.0)
    assert state_of(ada, worker) == "offline"
    job_id = hand.submit()
    worker.send("POST", f"/v1/sessions/{worker.session_id}/token")
    worker.token = worker.send("POST", f"/v1/sessions/{worker.session_id}/token").json()["token"]
    offer = hand.offer(worker)
    assert offer is not None
    assert state_of(ada, worker) == "available", "offered, not accepted yet"
    assert hand.accept(worker, offer["attempt_id"], offer["epoch"]).status_code == 200
    assert hand.job(job_id)["state"] == "running"


def test_a_worker_whose_polls_do_not_get_through_says_so_in_the_console(hand: Any, worker: Any, ada: Any) -> None:
    hand.poll(worker, 0)
    beat = {"n": 1, "state": "available", "reasons": ["not-polling"], "leases": []}
    assert worker.call("POST", "/v1/heartbeat", beat).status_code == 200
    shown = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert "not-polling" in shown["reasons"]


def test_a_restart_without_a_goodbye_takes_over_at_once_and_the_old_connection_is_told(
    hand: Any, worker: Any, ada: Any
) -> None:
    hand.submit()
    grant = hand.take(worker)
    old = worker.token
    worker.connect(instance_id="ins_second", prev_instance_ids=(worker.instance_id,))
    new, worker.token = worker.token, old
    refused = hand.beat(worker, grant)
    assert (refused.status_code, refused.json()["code"]) == (409, "session-replaced")
    worker.token = new
    assert hand.take(worker).job_id == grant.job_id, "what it holds no more was free at once"
