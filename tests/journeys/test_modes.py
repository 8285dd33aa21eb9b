"""Drain and stop in mid-job: what runs is finished or saved, and Resume goes on from there."""

import time

from tests.journeys.conftest import Stack, job_spec, paced_spec

GRACE_S = 30.0
TAKEN_S = 3.0
"""From the start of the command `resume` to the acceptance of the job that waits."""


def test_a_drained_worker_finishes_its_job_and_takes_the_next_after_resume(stack: Stack) -> None:
    worker = stack.worker("box")
    running = stack.submit(paced_spec("running", decisions=3000))
    stack.wait_training(running)
    assert worker.command("drain").code == 0
    worker.wait(lambda status: status.state == "draining" and status.mode.here == "drain", "it is draining")
    waiting = stack.submit(job_spec("waiting"))

    assert stack.wait_end(running).state == "succeeded"
    worker.wait(lambda status: status.state == "paused" and "drained" in status.reasons, "it is drained")
    time.sleep(1.0)
    held_back = stack.client.job(waiting)
    assert (held_back.state, held_back.attempt, held_back.offered) == ("queued", 0, False)
    assert held_back.reason

    resumed = time.monotonic()
    assert worker.command("resume").code == 0
    stack.wait_job(waiting, lambda job: job.attempt == 1, "the worker takes it")
    assert time.monotonic() - resumed < 3 * TAKEN_S
    assert stack.wait_end(waiting).state == "succeeded"


def test_a_worker_drained_in_the_console_resumes_only_there(stack: Stack) -> None:
    worker = stack.worker("box")
    assert stack.command("worker", "box", "drain", "--json").document["console_mode"] == "drain"
    worker.wait(lambda status: status.state == "paused" and status.mode.console == "drain", "it obeys")
    assert worker.command("resume").code == 0
    assert worker.wait(lambda status: True, "it answers").state == "paused"
    assert stack.command("worker", "box", "resume").code == 0
    worker.wait(lambda status: status.state == "available", "it is available again")


def test_a_stopped_job_keeps_its_checkpoint_and_resume_goes_on_from_it(stack: Stack) -> None:
    worker = stack.worker("box")
    job_id = stack.submit(paced_spec("endless"))
    stack.wait_training(job_id)
    began = time.monotonic()
    assert worker.command("stop").code == 0
    worker.wait(lambda status: status.job is None and status.state == "paused", "the slot is free")
    assert time.monotonic() - began < 3 * (GRACE_S + 5)
    assert worker.job_processes() == []

    queued = stack.wait_job(job_id, lambda job: job.state == "queued", "the job is queued again")
    assert "checkpoint" in queued.reason
    saved = stack.saved_step(job_id)
    assert f"{saved}" in queued.reason.replace(",", "").replace("\u202f", "")

    assert worker.command("resume").code == 0
    assert min(stack.wait_steps_of(job_id, attempt=2)) >= saved
    assert stack.client.job(job_id).step >= saved
    attempts = {attempt.ordinal: attempt.state for attempt in stack.client.job(job_id).attempts}
    assert attempts == {1: "released", 2: "running"}

    assert stack.command("job", "cancel", job_id).code == 0
    assert stack.wait_end(job_id).state == "canceled"
    worker.wait(lambda status: status.job is None, "the slot is free")


def test_a_second_worker_takes_a_stopped_worker_s_job_from_its_checkpoint(stack: Stack) -> None:
    first = stack.worker("first")
    job_id = stack.submit(paced_spec("endless"))
    stack.wait_training(job_id)
    assert first.command("stop").code == 0
    stack.wait_job(job_id, lambda job: job.state == "queued", "the job is queued again")
    saved = stack.saved_step(job_id)

    stack.worker("second")
    assert min(stack.wait_steps_of(job_id, attempt=2)) >= saved
    assert stack.client.job(job_id).worker == "second"
