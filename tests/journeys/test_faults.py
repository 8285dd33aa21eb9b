"""Crashes and outages in mid-job: training goes on or resumes, and every point arrives exactly once."""

from collections import Counter

import httpx

from app.cli.local_stack import LocalCoordinator
from tests.journeys.conftest import SETTINGS, Stack, eventually, job_spec


def _each_point_once(stack: Stack, job_id: str) -> None:
    counted = Counter((point.attempt, point.name, point.step) for point in stack.points(job_id))
    assert [key for key, count in counted.items() if count != 1] == []


def _no_update_is_missing(stack: Stack, job_id: str, attempt: int) -> None:
    """The counter of learning updates has no hole in the metrics of an attempt."""
    names = ("train/n_updates",)
    updates = [point.value for point in stack.points(job_id) if point.name in names and point.attempt == attempt]
    steps = [point.step for point in stack.points(job_id) if point.name in names and point.attempt == attempt]
    assert len(updates) > 1
    assert steps == sorted(set(steps))


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


def test_a_killed_core_resumes_its_job_and_each_point_arrives_once(stack: Stack) -> None:
    worker = stack.worker("box")
    job_id = stack.submit(job_spec("killed", cycles=30))
    stack.wait_training(job_id)
    saved = stack.saved_step(job_id)
    worker.core.kill()
    worker.restart()

    job = stack.wait_end(job_id)
    assert (job.state, job.step) == ("succeeded", 60_000)
    assert [attempt.state for attempt in sorted(job.attempts, key=lambda one: one.ordinal)] == ["released", "succeeded"]
    _each_point_once(stack, job_id)
    second = [point.step for point in stack.points(job_id) if point.attempt == 2]
    assert min(second) >= saved
    for attempt in job.attempts:
        numbers = _sequence_numbers(stack, attempt.id)
        assert numbers == list(range(len(numbers)))


def test_training_goes_on_while_the_coordinator_is_down_and_everything_arrives_later(stack: Stack) -> None:
    worker = stack.worker("box")
    job_id = stack.submit(job_spec("outage", cycles=30))
    stack.wait_training(job_id)
    port = stack.coordinator.port
    stack.coordinator.kill()

    cut_off = worker.wait(
        lambda status: "coordinator-unreachable" in status.reasons and status.job is not None, "it is cut off"
    )
    assert cut_off.state == "training"
    assert cut_off.job is not None
    before = cut_off.job.step
    worker.wait(lambda status: status.job is None or status.job.step > before, "training goes on")

    stack.coordinator = LocalCoordinator(stack.folder, SETTINGS.format(pairing_s=900), port=port)
    job = stack.wait_end(job_id)
    assert (job.state, job.step, job.attempt) == ("succeeded", 60_000, 1)
    _each_point_once(stack, job_id)
    _no_update_is_missing(stack, job_id, attempt=1)
    eventually(lambda: _sent_everything(worker.core.status()), "the outbox is empty")


def _sent_everything(status: object) -> bool:
    outbox = getattr(status, "outbox", None)
    return outbox is not None and outbox.events == 0
