"""A lease that may be lost: what the job's own rule makes of it, and what becomes of a copy that lost its job."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from worker_core.core import rounds
from worker_core.core.lease_watch import LeaseView, lease_event
from worker_core.core.life import Life
from worker_core.core.life_events import LeaseLapsed, OfflineTooLong
from worker_core.core.rounds import Rounds
from worker_core.core.settings import Settings
from worker_core.jobs.workspace import workspace_path
from worker_core.machine.sources import SETTING
from worker_core.wire.work import Limits

LIMITS = Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=5, max_offline_s=3600.0)
Sleep = Callable[[float], object]
STOPS = msgspec.structs.replace(LIMITS, on_lease_loss="stop")
RUNNING = Life("connected", "running")
AT_RISK = replace(RUNNING, at_risk=True)
VIEW = LeaseView(age_s=10.0, awake_s=10_000.0, ttl_s=300.0, wake_grace_s=45.0, limits=LIMITS)


@pytest.mark.parametrize(
    ("life", "changes", "expected"),
    [
        (RUNNING, {}, None),
        (RUNNING, {"age_s": 301.0}, LeaseLapsed()),
        (Life("connected", "stopping"), {"age_s": 9e9}, None),
        (Life("connected"), {"age_s": 9e9}, None),
        (AT_RISK, {"age_s": 301.0}, None),
        (AT_RISK, {"age_s": 3601.0}, OfflineTooLong()),
        (AT_RISK, {"age_s": 3601.0, "awake_s": 3.0}, None),  # just woke: it asks first
        (AT_RISK, {"age_s": 301.0, "limits": msgspec.structs.replace(LIMITS, max_offline_s=0.0)}, OfflineTooLong()),
        (RUNNING, {"age_s": 301.0, "limits": STOPS}, LeaseLapsed(stop=True)),
        (RUNNING, {"age_s": 301.0, "limits": STOPS, "awake_s": 3.0}, None),
    ],
)
def test_what_the_age_of_a_lease_means(life: Life, changes: dict[str, Any], expected: object) -> None:
    assert lease_event(life, replace(VIEW, **changes)) == expected


def test_a_job_may_run_on_for_its_own_time_and_never_less_than_the_lease() -> None:
    assert replace(VIEW, age_s=600.0).may_run_s == 3000.0
    assert replace(VIEW, age_s=100.0, limits=STOPS).may_run_s == 200.0


@pytest.fixture(autouse=True)
def sleep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sleep:
    """Let the computer sleep so many seconds; its clocks are looked at more often than once a second."""
    monkeypatch.setattr(rounds, "TICK_S", 0.2)
    file = tmp_path / "sources.json"
    file.write_text("{}")
    monkeypatch.setenv(SETTING, str(file))
    return lambda seconds: file.write_text(json.dumps({"clock_offset_s": seconds}))


async def start_job(bench: Any, **limits: Any) -> str:
    """A worker with an endless job."""
    bench.coordinator.params = msgspec.structs.replace(bench.coordinator.params, stale_s=0.3)
    await bench.start_paired()
    spec = json.dumps({"steps": 100_000, "pause_s": 0.02})
    attempt = bench.coordinator.offer(spec, limits=msgspec.structs.replace(LIMITS, **limits))
    await bench.until(lambda: bench.coordinator.events[attempt])
    return attempt


async def lose_contact(bench: Any, sleep: Sleep) -> int:
    """End the coordinator and let more time pass than a lease lasts; returns the port to come back on."""
    port = bench.coordinator.port
    await bench.coordinator.stop()
    sleep(400.0)
    return port


async def test_a_job_trains_on_through_an_outage_longer_than_its_lease(bench: Any, sleep: Sleep) -> None:
    attempt = await start_job(bench)
    port = await lose_contact(bench, sleep)
    await bench.until(lambda: bench.worker.known.life.at_risk)
    status = bench.worker.status()
    assert (status.state, status.reasons) == ("training", ("coordinator-unreachable",))
    assert "another worker may have the job now. Here it runs on for 53 min" in status.detail
    here = bench.worker.journal.next_seq(attempt)
    await bench.coordinator.start(port)
    await bench.until(lambda: not bench.worker.known.life.at_risk)
    await bench.until(lambda: len(bench.coordinator.events[attempt]) > here)
    assert bench.worker.known.life.phase == "busy"
    assert attempt not in bench.coordinator.releases


@pytest.mark.parametrize("limits", [{"on_lease_loss": "stop"}, {"max_offline_s": 0.0}])
async def test_a_job_that_is_too_long_without_contact_saves_stops_and_is_given_back_later(
    bench: Any, sleep: Sleep, limits: dict[str, Any]
) -> None:
    attempt = await start_job(bench, **limits)
    port = await lose_contact(bench, sleep)
    await bench.until(lambda: bench.worker.known.life.slot == "free")
    assert bench.processes_of(attempt) == []
    (row,) = await bench.worker.journal.attempts()
    assert row.end.how == "stopped"
    assert row.checkpoint is not None
    assert workspace_path(bench.paths, attempt).exists()
    await bench.coordinator.start(port)
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt))
    assert release.reason == "offline"
    assert release.step == row.checkpoint.step
    assert len(bench.coordinator.events[attempt]) >= row.next_seq


async def test_a_copy_that_lost_its_job_is_ended_within_ten_seconds_and_kept_for_a_day(bench: Any) -> None:
    attempt = await start_job(bench)
    bench.coordinator.verdicts[attempt] = "superseded"
    await bench.until(lambda: bench.worker.known.life.slot == "free", timeout_s=30)
    assert bench.processes_of(attempt) == []
    await bench.until(lambda: not bench.worker._slot.leases())
    await bench.until(lambda: bench.worker.journal.fact("kept-workspaces"))
    await Rounds(bench.worker, bench.paths, Settings()).housekeep()
    assert workspace_path(bench.paths, attempt).exists()
    assert attempt not in bench.coordinator.completions
    assert attempt not in bench.coordinator.releases


async def test_what_was_held_through_an_outage_is_dropped_when_another_has_the_job(bench: Any, sleep: Sleep) -> None:
    attempt = await start_job(bench, on_lease_loss="stop")
    port = await lose_contact(bench, sleep)
    await bench.until(lambda: bench.worker.known.life.slot == "free")
    arrived = len(bench.coordinator.events[attempt])
    bench.coordinator.verdicts[attempt] = "superseded"
    for method in ("events", "artifacts", "release"):
        refused = bench.coordinator.refusal("lease-superseded")
        bench.coordinator.script("POST", f"/v1/attempts/{attempt}/{method}", *[refused] * 50)
    await bench.coordinator.start(port)
    await bench.until(lambda: bench.worker.journal.fact("kept-workspaces"))
    await bench.until(lambda: not bench.worker._slot.leases())
    async with asyncio.timeout(10):
        while await bench.worker.journal.attempts():  # noqa: ASYNC110 - the journal tells nobody
            await asyncio.sleep(0.05)
    assert len(bench.coordinator.events[attempt]) == arrived
    assert attempt not in bench.coordinator.releases
