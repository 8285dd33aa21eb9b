"""A coordinator that asks for newer workers: an older one takes no work, and sees through what it runs."""

from typing import Any

from tests.coordinator.api.test_restore import moved_to

NEWER = "1.5.0"


def refused(response: Any) -> tuple[int, str, str]:
    return response.status_code, response.json()["code"], response.json()["action"]


UPGRADE = (426, "upgrade-required", "upgrade")


def test_a_worker_below_the_floor_ends_its_job_and_gets_no_other(start_coordinator: Any, hand_of: Any) -> None:
    live = start_coordinator()
    hand = hand_of(live.person("ada@example.org"))
    worker, idle = live.worker(hand.person), live.worker(hand.person)
    job_id = hand.submit()
    grant = hand.take(worker)
    live.close()
    live = start_coordinator(min_worker_version=NEWER)
    hand = hand_of(live.person("ada@example.org"))
    later = hand.submit()
    moved_to(worker, live)
    moved_to(idle, live)
    assert refused(hand.poll(worker, 0)) == UPGRADE
    assert refused(hand.poll(idle, 0)) == UPGRADE
    assert refused(idle.try_connect()) == UPGRADE
    held = {"attempt_id": grant.id, "epoch": grant.epoch, "phase": "running", "next_seq": 0}
    assert worker.connect(held=[held]).verdicts[0].verdict == "continue"
    assert hand.verdict(worker, grant) == "ok"
    assert hand.events(worker, grant, 0, [hand.metric(1, loss=1.0)]).status_code == 200
    assert hand.complete(worker, grant, 1).json() == {"recorded": "succeeded"}
    assert hand.job(job_id)["state"] == "succeeded"
    assert refused(worker.try_connect()) == UPGRADE
    assert hand.job(later)["state"] == "queued"
    assert idle.connect(version=NEWER).verdicts == ()
    assert hand.take(idle).job_id == later


def test_a_job_is_seen_through_in_an_old_version_for_a_week_and_no_longer(start_coordinator: Any, hand_of: Any) -> None:
    live = start_coordinator()
    hand = hand_of(live.person("ada@example.org"))
    worker = live.worker(hand.person)
    hand.submit()
    grant = hand.take(worker)
    live.close()
    live = start_coordinator(min_worker_version=NEWER)
    moved_to(worker, live)
    held = {"attempt_id": grant.id, "epoch": grant.epoch, "phase": "running", "next_seq": 0}
    assert worker.connect(held=[held]).verdicts[0].verdict == "continue"
    live.forward(8 * 86400.0)
    assert refused(worker.try_connect(held=[held])) == UPGRADE
