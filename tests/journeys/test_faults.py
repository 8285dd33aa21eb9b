"""Crashes and outages in mid-job: training goes on or resumes, and every point arrives exactly once."""

from collections import Counter

import httpx

from app.cli.local_stack import LocalCoordinator
from tests.journeys.conftest import SETTINGS, Stack, Worker, eventually, paced_spec


def _each_point_once(stack: Stack, job_id: str) -> None:
    counted = Counter((point.attempt, point.name, point.step) for point in stack.points(job_id))
    assert [key for key, count in counted.items() if count != 1] == []


def _sequence_numbers(stack: Stack, attempt_id: str) -> list[int]:
    headers = {"Authorization": f"Bearer {stack.token}"}
    found: list[int] = []
    with httpx.Client(base_url=stack.coordinator.url, headers=headers, trust_env=False) as http:
        while True:
            after = str(found[-1] if found else -1)
            answer = http.get(f"/v1/attempts/{attempt_id}/events", params={"after_seq": after})
            items = answer.json()["items"]
            if not items:
                return found
            found += [item["seq"] for item in items]


def _events_have_no_gap(stack: Stack, job_id: str) -> None:
    for attempt in stack.client.job(job_id).attempts:
        numbers = _sequence_numbers(stack, attempt.id)
        assert numbers == list(range(len(numbers)))


def _end_by_cancel(stack: Stack, worker: Worker, job_id: str) -> None:
    """End the job, and wait until the worker has sent all it knows."""
    stack.client.cancel(job_id)
    assert stack.wait_end(job_id).state == "canceled"
    worker.wait(lambda status: status.job is None and status.outbox.events == 0, "everything is sent")


def test_a_killed_core_resumes_its_job_and_each_point_arrives_once(stack: Stack) -> None:
    worker = stack.worker("box")
    job_id = stack.submit(paced_spec("killed"))
    stack.wait_training(job_id)
    saved = stack.saved_step(job_id)
    worker.core.kill()
    worker.restart()

    assert min(stack.wait_steps_of(job_id, attempt=2)) >= saved
    attempts = {attempt.ordinal: attempt.state for attempt in stack.client.job(job_id).attempts}
    assert attempts == {1: "released", 2: "running"}
    _end_by_cancel(stack, worker, job_id)
    _each_point_once(stack, job_id)
    _events_have_no_gap(stack, job_id)


def test_training_goes_on_while_the_coordinator_is_down_and_everything_arrives_later(stack: Stack) -> None:
    worker = stack.worker("box")
    job_id = stack.submit(paced_spec("outage"))
    stack.wait_training(job_id)
    port = stack.coordinator.port
    stack.coordinator.kill()

    cut_off = worker.wait(
        lambda status: "coordinator-unreachable" in status.reasons and status.job is not None, "it is cut off"
    )
    assert cut_off.state == "training"
    assert cut_off.job is not None
    before = cut_off.job.step
    later = worker.wait(lambda status: status.job is None or status.job.step > before + 200, "training goes on")
    assert later.job is not None
    assert "coordinator-unreachable" in later.reasons

    stack.coordinator = LocalCoordinator(stack.folder, SETTINGS.format(pairing_s=900), port=port)
    reached = later.job.step
    eventually(lambda: max(stack.wait_steps_of(job_id, attempt=1)) > reached, "the points of the outage arrive")
    worker.wait(lambda status: status.reasons == () and status.job is not None, "contact is back")
    _end_by_cancel(stack, worker, job_id)
    assert stack.client.job(job_id).attempt == 1
    _each_point_once(stack, job_id)
    _events_have_no_gap(stack, job_id)
