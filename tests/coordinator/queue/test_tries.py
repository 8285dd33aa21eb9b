"""Which failures end a job: those in a row without progress, and no number of reboots of a job that gets further."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.queue.rows import find_held
from coordinator.queue.tries import failures_after
from worker_core.wire.problems import ProblemError

steps = st.none() | st.integers(0, 10**9)


@given(st.integers(0, 5), steps, steps)
def test_progress_starts_the_count_anew_and_its_lack_counts(failures, began_at, newest):
    progressed = newest is not None and (began_at is None or newest > began_at)
    assert failures_after(failures, began_at, newest) == (1 if progressed else failures + 1)


def crash(desk, held):
    desk.write(lambda conn: desk.endings.release(conn, find_held(conn, held.attempt.id, "one"), "crash"))


def test_ten_reboots_do_not_end_a_job_that_gets_further_each_time(desk):
    job_id = desk.submit(max_attempts=3)
    for index in range(10):
        held = desk.start(job_id, "one")
        desk.checkpoint(held, 100 * (index + 1))
        crash(desk, held)
        job = desk.job(job_id)
        assert (job.state, job.failures, job.resume_step) == ("queued", 1, 100 * (index + 1))


def test_a_job_that_crashes_at_the_same_place_ends_after_its_tries(desk):
    job_id = desk.submit(max_attempts=3)
    held = desk.start(job_id, "one")
    desk.checkpoint(held, 100)
    crash(desk, held)
    crash(desk, desk.start(job_id, "one"))
    assert desk.job(job_id).state == "queued"
    crash(desk, desk.start(job_id, "one"))
    job = desk.job(job_id)
    assert (job.state, job.reason, job.resume_step) == ("failed", "failed after 3 tries: worker crashed", 100)


def test_a_job_that_may_be_tried_once_is_not_tried_again_whatever_it_reached(desk):
    job_id = desk.submit(max_attempts=1)
    held = desk.start(job_id, "one")
    desk.checkpoint(held, 100)
    crash(desk, held)
    assert desk.job(job_id).state == "failed"


def test_lost_attempts_that_got_further_do_not_add_up(desk):
    job_id = desk.submit(max_attempts=2)
    for index in range(4):
        held = desk.start(job_id, "one")
        desk.checkpoint(held, index + 1)
        desk.pass_time(316)
        job = desk.job(job_id)
        assert (job.state, job.failures, job.lost_until) == ("queued", 1, None)
        desk.pass_time(61)


def test_a_job_runs_on_after_the_authorization_ran_out_but_not_for_ever(desk):
    desk.enroll("one", authorized_s=3600.0)
    desk.enroll("two")
    job_id = desk.submit(max_attempts=1)
    held = desk.start(job_id, "one")
    desk.checkpoint(held, 7)
    renew = lambda: desk.write(  # noqa: E731
        lambda conn: desk.ledger.renew(conn, held.attempt.id, held.attempt.epoch, desk.clock.at + 300)
    )
    for _ in range(13):
        desk.clock.at += 3600.0
        assert renew()
        desk.write(desk.reaper.apply)
        assert desk.fence(held.attempt).job.state == "running"
    desk.clock.at += 1800.0
    renew()
    desk.write(desk.reaper.apply)
    job = desk.job(job_id)
    assert (job.state, job.epoch, job.failures, job.resume_step) == ("queued", 2, 0, 7)
    assert job.reason == "authorization of one expired, checkpoint at step 7"
    with pytest.raises(ProblemError, match="goes on without it"):
        desk.fence(held.attempt)
    assert desk.start(job_id, "two").job.epoch == 3
