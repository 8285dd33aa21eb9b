"""Each rule of attempts and jobs, one at a time, on a real database."""

import pytest

from coordinator.queue.rows import find_held
from worker_core.wire.codec import convert
from worker_core.wire.problems import ProblemError
from worker_core.wire.work import Completion


def complete(desk, held, outcome="succeeded", failure=None):
    error = {"failure": failure, "message": "boom"} if failure else None
    body = convert({"epoch": held.attempt.epoch, "outcome": outcome, "final_seq": 0, "error": error}, Completion)
    return desk.write(lambda conn: desk.endings.complete(conn, desk.ledger.fence(*key(conn, held)), body, "sha"))


def key(conn, held):
    return conn, held.attempt.id, held.attempt.worker_id, held.attempt.epoch


def cancel(desk, job_id):
    desk.write(lambda conn: desk.endings.cancel(conn, desk.job(job_id), "ada"))


def test_the_epoch_moves_only_when_an_offer_is_accepted(desk):
    job_id = desk.submit()
    desk.offer(job_id, "worker-1")
    assert desk.job(job_id).epoch == 0
    desk.pass_time(31)
    assert (desk.job(job_id).epoch, desk.job(job_id).offered_attempt) == (0, None)
    assert desk.start(job_id, "worker-1").job.epoch == 1


def test_an_offer_is_open_to_one_worker_at_a_time_and_for_thirty_seconds(desk):
    job_id = desk.submit()
    attempt_id = desk.offer(job_id, "worker-1")
    assert desk.offer(job_id, "worker-2") is None
    desk.clock.at += 31
    with pytest.raises(ProblemError, match="30 seconds"):
        desk.accept(attempt_id, "worker-1")


def test_a_lost_attempt_comes_back_if_nobody_took_its_job(desk):
    held = desk.start(desk.submit(), "worker-1")
    desk.pass_time(316)
    lost = desk.job(held.job.id)
    assert (lost.state, lost.failures) == ("queued", 1)
    assert desk.attempt(held.attempt.id).state == "lost"
    desk.offer(held.job.id, "worker-2")
    desk.fence(held.attempt)
    back = desk.job(held.job.id)
    assert (back.state, back.failures, back.offered_attempt) == ("running", 0, None)


def test_a_lost_attempt_is_superseded_once_another_was_granted(desk):
    first = desk.start(desk.submit(), "worker-1")
    desk.pass_time(400)
    second = desk.start(first.job.id, "worker-2")
    assert desk.attempt(first.attempt.id).state == "superseded"
    with pytest.raises(ProblemError, match="superseded"):
        desk.fence(first.attempt)
    assert complete(desk, second) == "succeeded"


def test_a_job_on_its_last_attempt_waits_for_its_lost_worker_and_then_fails(desk):
    held = desk.start(desk.submit(max_attempts=1), "worker-1")
    desk.pass_time(316)
    waiting = desk.job(held.job.id)
    assert (waiting.state, waiting.reason) == ("queued", "waiting for lost worker")
    desk.pass_time(3601)
    assert desk.job(held.job.id).state == "failed"
    with pytest.raises(ProblemError):
        desk.fence(held.attempt)


@pytest.mark.parametrize("failure", ["signal", "silence", "device-lost", "start-failed"])
def test_a_failure_another_try_may_cure_is_tried_again_up_to_the_limit(desk, failure):
    job_id = desk.submit(max_attempts=2)
    complete(desk, desk.start(job_id, "worker-1"), "failed", failure)
    assert desk.job(job_id).state == "queued"
    complete(desk, desk.start(job_id, "worker-1"), "failed", failure)
    job = desk.job(job_id)
    assert (job.state, job.reason) == ("failed", f"failed after 2 tries: {failure}: boom")


@pytest.mark.parametrize("failure", ["exception", "bad-spec", "out-of-memory"])
def test_a_failure_no_other_try_can_cure_is_final(desk, failure):
    job_id = desk.submit()
    complete(desk, desk.start(job_id, "worker-1"), "failed", failure)
    assert desk.job(job_id).state == "failed"


def test_work_that_finished_before_the_cancellation_landed_counts(desk):
    held = desk.start(desk.submit(), "worker-1")
    cancel(desk, held.job.id)
    assert complete(desk, held) == "succeeded"
    job = desk.job(held.job.id)
    assert (job.state, job.reason) == ("succeeded", "succeeded before the cancellation by ada arrived")


def test_a_cancelled_job_whose_worker_is_gone_ends_at_the_lease(desk):
    held = desk.start(desk.submit(), "worker-1")
    cancel(desk, held.job.id)
    desk.pass_time(121)
    assert desk.job(held.job.id).state == "canceling"
    desk.pass_time(200)
    ended = desk.job(held.job.id)
    assert (ended.state, ended.epoch) == ("canceled", held.job.epoch + 1)
    with pytest.raises(ProblemError):
        desk.fence(held.attempt)


def test_a_queued_job_is_cancelled_at_once_and_its_offer_with_it(desk):
    job_id = desk.submit()
    attempt_id = desk.offer(job_id, "worker-1")
    cancel(desk, job_id)
    assert (desk.job(job_id).state, desk.attempt(attempt_id).state) == ("canceled", "withdrawn")
    with pytest.raises(ProblemError):
        desk.accept(attempt_id, "worker-1")


def test_revoking_a_worker_frees_its_job_and_ends_its_attempt_for_good(desk):
    held = desk.start(desk.submit(), "worker-1")
    desk.write(lambda conn: desk.endings.fence_worker(conn, "worker-1"))
    job = desk.job(held.job.id)
    assert (job.state, job.epoch, job.failures) == ("queued", 2, 0)
    assert desk.attempt(held.attempt.id).state == "revoked"
    with pytest.raises(ProblemError):
        desk.fence(held.attempt)


def test_a_restart_ends_no_lease_and_no_offer(desk):
    running = desk.start(desk.submit(), "worker-1")
    offered = desk.offer(desk.submit(), "worker-2")
    desk.clock.at += 7200
    desk.write(desk.ledger.grace)
    desk.pass_time(25)
    assert desk.attempt(running.attempt.id).state == "running"
    assert desk.attempt(offered).state == "offered"


def test_stopping_is_never_a_failure(desk):
    job_id = desk.submit(max_attempts=1)
    for _ in range(3):
        held = desk.start(job_id, "worker-1")
        desk.write(lambda conn, held=held: desk.endings.release(conn, find_held(*key(conn, held)[:3]), "stopped"))
        assert (desk.job(job_id).state, desk.job(job_id).failures) == ("queued", 0)
    assert desk.job(job_id).reason == "worker stopped, no checkpoint yet"


def test_a_lost_attempt_does_not_come_back_into_a_job_that_starts_from_scratch(desk):
    job_id = desk.submit(max_attempts=1)
    first = desk.start(job_id, "one")
    desk.pass_time(316)
    desk.pass_time(3601)
    assert desk.job(job_id).state == "failed"
    desk.write(lambda conn: desk.endings.retry(conn, desk.job(job_id), "scratch", "ada"))
    with pytest.raises(ProblemError) as refused:
        desk.fence(first.attempt)
    assert refused.value.code == "lease-superseded"
    assert desk.job(job_id).state == "queued"
