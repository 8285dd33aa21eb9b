"""No job is taken where nothing contains it, and none while processes of the last one cannot be ended."""

import asyncio
from typing import Any

import pytest

from worker_core.core import job_safety
from worker_core.core.job_safety import JobSafety, policy_of
from worker_core.core.settings import Settings
from worker_core.jobs.process import TreeEnd
from worker_core.jobs.sandbox.process_group import ProcessGroup

STUCK = 4711


def found(by: Any) -> Any:
    return lambda paths: by


async def test_without_containment_offers_are_declined_and_the_status_says_why_and_what_to_do(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = ProcessGroup("bubblewrap is not installed. On Debian: sudo apt-get install bubblewrap.")
    monkeypatch.setattr(job_safety, "find_containment", found(missing))
    worker = await bench.start_paired()
    safety = worker.known.machine.safety
    safety.confinement = type(safety.confinement)(missing, policy_of(Settings()))
    await safety.look()
    status = worker.status()
    assert (status.state, status.reasons) == ("problem", ("no-containment",))
    assert "apt-get install bubblewrap" in status.detail
    assert (status.containment.by, status.containment.network) == ("process-group", True)
    attempt = bench.offer()
    await bench.until(lambda: bench.coordinator.declined)
    assert bench.coordinator.declined == [(attempt, "no-containment")]


async def test_what_a_person_installs_is_found_without_a_restart(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    safety = JobSafety(bench.paths, Settings())
    monkeypatch.setattr(job_safety, "LOOK_AGAIN_S", 0.02)
    monkeypatch.setattr(job_safety, "find_containment", found(ProcessGroup("missing")))
    await safety.look()
    assert list(safety.troubles()) == ["no-containment"]
    monkeypatch.undo()
    monkeypatch.setattr(job_safety, "LOOK_AGAIN_S", 0.02)
    watching = asyncio.create_task(safety.watch())
    await bench.until(lambda: safety.obstacle() is None)
    watching.cancel()
    assert safety.shown().by == "bubblewrap"


async def test_a_job_that_cannot_be_ended_holds_the_slot_until_it_is_gone(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = asyncio.Event()

    def resist(*_arguments: Any, **_limits: Any) -> TreeEnd:
        return TreeEnd(0, () if gone.is_set() else (STUCK,))

    monkeypatch.setattr("worker_core.jobs.job.end_tree", resist)
    monkeypatch.setattr(job_safety, "end_tree", resist)
    monkeypatch.setattr(job_safety, "_RETRY_S", 0.05)
    worker = await bench.start_paired()
    attempt = bench.offer(steps=2)
    await bench.until(lambda: attempt in bench.coordinator.completions)
    await bench.until(lambda: worker.status().reasons == ("job-stuck",))
    status = worker.status()
    assert (status.state, str(STUCK) in status.detail) == ("problem", True)
    later = bench.offer(steps=2)
    await asyncio.sleep(0.3)
    assert later not in bench.coordinator.accepted
    gone.set()
    await bench.until(lambda: later in bench.coordinator.completions)
    assert worker.status().reasons == ()


def test_the_owner_s_settings_are_the_policy() -> None:
    settings = Settings(allow_network=True, max_memory_share=0.5, max_processes=99, readable_folders=("/data",))
    policy = policy_of(settings)
    assert (policy.allow_network, policy.allow_uncontained) == (True, False)
    assert (policy.max_memory_share, policy.max_processes) == (0.5, 99)
    assert [str(folder) for folder in policy.readable] == ["/data"]
