"""A newer worker says words that this coordinator does not know: they are kept and shown, and nothing gets stuck."""

from typing import Any

from worker_core.wire.codec import decode
from worker_core.wire.problems import Problem
from worker_core.wire.session import Control


def test_an_unknown_class_of_failure_ends_the_job_and_is_told(hand: Any, worker: Any) -> None:
    job_id = hand.submit()
    grant = hand.take(worker)
    for _ in range(2):
        assert hand.fail(worker, grant, "cosmic-ray").json() == {"recorded": "failed"}
    job = hand.job(job_id)
    assert (job["state"], job["cure"], job["reason"]) == ("failed", "", "failed: cosmic-ray: it broke")
    assert job["attempts"][0]["error_class"] == "cosmic-ray"


def test_an_unknown_reason_of_a_release_gives_the_job_back_uncounted(hand: Any, worker: Any) -> None:
    job_id = hand.submit(retry={"max_attempts": 1})
    assert hand.release(worker, hand.take(worker), "lunch").status_code == 204
    job = hand.job(job_id)
    assert job["state"] == "queued"
    assert "worker gave it back: lunch" in job["reason"]


def test_unknown_states_and_phases_are_shown_as_they_are(hand: Any, worker: Any, ada: Any) -> None:
    hand.submit()
    grant = hand.take(worker)
    held = {"attempt_id": grant.id, "epoch": grant.epoch, "phase": "musing", "next_seq": 0}
    assert worker.connect(state="dreaming", held=[held]).verdicts[0].verdict == "continue"
    assert hand.beat(worker, grant, phase="musing").json()["leases"][0]["verdict"] == "ok"
    assert hand.poll(worker, 0, state="dreaming").status_code in (200, 204)
    assert ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["state"] == "dreaming"


def test_unknown_flags_and_streams_are_events_like_any(hand: Any, worker: Any, ada: Any) -> None:
    job_id = hand.submit()
    grant = hand.take(worker)
    mood = {"t": "flag", "ts": 1.0, "step": 2, "flag": "mood", "text": "it is sad", "action": "console"}
    events = [mood, hand.log_line("beep", "speaker")]
    assert hand.events(worker, grant, 0, events).json() == {"next_seq": 2}
    assert hand.job(job_id)["flags"][0]["flag"] == "mood"
    lines = ada.send("GET", f"/v1/jobs/{job_id}/logs").json()["items"]
    assert [line["text"] for line in lines] == ["step 2: it is sad", "beep"]


def test_an_older_worker_reads_what_a_newer_coordinator_says() -> None:
    told = decode(b'{"title":"x","status":409,"code":"moon-phase","retryable":false,"action":"sing"}', Problem)
    assert (told.code, told.action) == ("moon-phase", "sing")
    authorization = b'{"expires_at":"","remaining_s":1,"extend_while_healthy":true}'
    control = b'{"gen":1,"rev":2,"console_mode":"run","held":"eclipse","authorization":%b}' % authorization
    assert decode(control, Control).held == "eclipse"
