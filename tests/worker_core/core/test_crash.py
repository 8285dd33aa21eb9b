"""A core that is killed in mid-job, and the one that starts after it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripted_coordinator import html  # pyright: ignore[reportMissingImports]

from worker_core.core.reports import new_attempt
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd
from worker_core.machine.spawn import spawn
from worker_core.wire.signed import Offer
from worker_core.wire.work import Limits

CORE = Path(__file__).with_name("core_process.py")


def metrics(events: list[Any]) -> list[int]:
    return [event.step for event in events if type(event).__name__ == "Metric"]


async def test_a_killed_core_costs_nothing_older_than_the_last_checkpoint_and_no_point_twice(bench: Any) -> None:
    await bench.start_paired()
    await bench.stop()
    core = spawn([sys.executable, str(CORE), str(bench.paths.data.parent)], stderr=subprocess.DEVNULL)
    try:
        attempt = bench.offer(steps=10_000, pause_s=0.02)
        await bench.until(lambda: len(metrics(bench.coordinator.events[attempt])) > 25, timeout_s=30)
    finally:
        core.kill()
        core.wait(20)
    await bench.start()
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt))
    points = metrics(bench.coordinator.events[attempt])
    assert release.reason == "crash"
    assert points == list(range(1, len(points) + 1))
    assert release.step >= len(points) - 10
    saved = bench.coordinator.artifacts[attempt][release.checkpoint]
    assert saved.startswith(b"checkpoint at step %d" % release.step)
    held = bench.coordinator.sessions[-1].held
    assert [item.attempt_id for item in held] == [attempt]
    await bench.until_state("available")


@pytest.mark.parametrize("ending", ["revoked", "leaving"])
async def test_what_a_killed_core_left_is_ended_at_once_when_nobody_may_wait_for_it(bench: Any, ending: str) -> None:
    await bench.start_paired()
    await bench.stop()
    core = spawn([sys.executable, str(CORE), str(bench.paths.data.parent)], stderr=subprocess.DEVNULL)
    limits = Limits(max_runtime_s=600, max_disk_bytes=1 << 30, stop_grace_s=60)
    attempt = bench.coordinator.offer('{"steps": 100000, "deaf": true}', limits=limits)
    await bench.until(lambda: len(metrics(bench.coordinator.events[attempt])) > 12, timeout_s=30)
    core.kill()
    core.wait(20)
    worker = await bench.start()
    await bench.until(lambda: worker.known.life.slot == "stopping" and bench.coordinator.sessions[-1].held)
    assert bench.processes_of(attempt)
    assert (worker.status().job.phase, worker.status().job.step) == ("stopping", 10)
    if ending == "revoked":
        bench.coordinator.revoke()
        await bench.until_state("revoked")
        await bench.until(lambda: bench.processes_of(attempt) == [], timeout_s=6)
        await bench.until(lambda: not list(bench.paths.workspaces.glob("att_*")))
    else:
        await bench.stop("now")
        assert bench.processes_of(attempt) == []
        assert bench.coordinator.releases[attempt].step == 10


@pytest.mark.parametrize(("how", "reason"), [("stopped", "stopped"), ("interrupted", "crash")])
async def test_a_stopped_job_is_given_back_though_the_core_died_before_it_wrote_that_down(
    bench: Any, how: Any, reason: str
) -> None:
    await bench.start_paired()
    await bench.stop()
    attempt = bench.offer()
    _, accepted = bench.coordinator.offers.popleft()
    jws = bench.coordinator.signed_offer(attempt, accepted)
    journal = Journal.open(bench.paths.state_db, boot_id="boot-1")
    offer = Offer(
        worker_id="w", thumbprint="t", gen=1, attempt_id=attempt, job_id="j", epoch=1, kind="k", spec_sha256="0" * 64
    )
    await journal.add_attempt(new_attempt(offer, jws, accepted))
    await journal.set_end(attempt, AttemptEnd(how=how))
    await journal.close()
    await bench.start()
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt))
    assert release.reason == reason
    await bench.until(lambda: bench.worker.journal.outbox().events == 0 and not bench.worker._slot.leases())
    assert attempt not in bench.coordinator.completions


async def test_the_ids_of_earlier_starts_are_on_disk_before_they_are_sent(bench: Any) -> None:
    await bench.start_paired()
    first = bench.coordinator.sessions[-1].instance_id
    await bench.stop()
    bench.coordinator.script("POST", "/v1/sessions", *[html()] * 1_000)  # it may have come through all the same
    await bench.start()
    await bench.until(lambda: bench.coordinator.count("POST", "/v1/sessions") > 1)
    unanswered = bench.worker.admission.membership.connection.instance_id
    await bench.stop()
    bench.coordinator.forget_scripts()
    await bench.start()
    await bench.until(lambda: bench.worker.known.life.standing == "connected")
    last = bench.coordinator.sessions[-1]
    assert last.prev_instance_ids == (first, unanswered)
    assert last.instance_id not in last.prev_instance_ids


async def test_starts_that_surely_reached_nobody_fill_no_list(bench: Any) -> None:
    await bench.start_paired()
    first = bench.coordinator.sessions[-1].instance_id
    await bench.stop()
    await bench.coordinator.stop()
    await bench.start()
    await bench.until(lambda: "coordinator-unreachable" in bench.worker.known.troubles)
    await bench.stop()
    await bench.coordinator.start(bench.coordinator.port)
    await bench.start()
    await bench.until(lambda: bench.worker.known.life.standing == "connected")
    assert bench.coordinator.sessions[-1].prev_instance_ids == (first,)
