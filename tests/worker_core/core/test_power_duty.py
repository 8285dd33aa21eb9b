"""Sleep, wake and the end of the machine, as the core lives them: a real job, real sockets, a scripted power."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "machine"))

from fake_logind import FakeLogind, private_bus  # pyright: ignore[reportMissingImports]

from worker_core.core.power_duty import PowerDuty
from worker_core.core.settings import Settings
from worker_core.machine.power_logind import LogindPower
from worker_core.machine.sources import SETTING, find_sources
from worker_core.wire.owner_rules import OwnerRules


class Machine:
    """The scripted machine of the worker on the bench."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self._readings: dict[str, Any] = {}
        self.set()

    def set(self, **readings: Any) -> None:
        self._readings.update(readings)
        self._script.write_text(json.dumps(self._readings))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    script = tmp_path / "sources.json"
    monkeypatch.setenv(SETTING, str(script))
    return Machine(script)


@pytest.fixture
async def duty(machine: Machine, bench: Any) -> AsyncIterator[Any]:
    """A paired worker that minds its machine's power."""
    worker = await bench.start_paired()
    power: Any = find_sources().power
    serving = asyncio.create_task(PowerDuty(worker, power, patience_s=1.5).serve())
    yield power
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_before_sleep_the_job_saves_and_only_then_the_machine_may_go(
    machine: Machine, bench: Any, duty: Any
) -> None:
    attempt = bench.offer(steps=10_000, pause_s=0.02, checkpoint_every=100_000)
    await bench.until(lambda: len(bench.coordinator.events[attempt]) > 5)
    machine.set(power="sleeping")
    await bench.until(lambda: not duty.held)
    checkpoint = bench.worker.status().job.checkpoint_age_s
    assert checkpoint is not None
    assert checkpoint < 10
    machine.set(power="awake")
    before = len(bench.coordinator.events[attempt])
    await bench.until(lambda: len(bench.coordinator.events[attempt]) > before)
    assert bench.worker.status().state == "training"


async def test_a_job_that_saves_nothing_holds_sleep_up_no_longer_than_the_system_waits(
    machine: Machine, bench: Any, duty: Any
) -> None:
    attempt = bench.offer(steps=10_000, pause_s=30)
    await bench.until(lambda: bench.worker.status().job is not None and bench.worker.status().job.phase == "running")
    began = time.monotonic()
    machine.set(power="sleeping")
    await bench.until(lambda: not duty.held)
    assert 1 < time.monotonic() - began < 5
    assert bench.worker.status().job.attempt_id == attempt


async def test_on_waking_the_coordinator_hears_of_us_before_any_job_is_taken(
    machine: Machine, bench: Any, duty: Any
) -> None:
    machine.set(power="sleeping")
    await bench.until(lambda: not duty.held)
    connections, seen = bench.coordinator.connections, len(bench.coordinator.seen)
    attempt = bench.offer(steps=3)
    began = time.monotonic()
    machine.set(power="awake", clock_offset_s=6 * 3600.0)
    await bench.until(lambda: bench.coordinator.connections > connections)
    assert time.monotonic() - began < 5
    await bench.until(lambda: attempt in bench.coordinator.completions)
    calls = [request.path for request in bench.coordinator.seen[seen:]]
    accept = next(place for place, path in enumerate(calls) if path.endswith("/accept"))
    assert "/v1/heartbeat" in calls[:accept] or "/v1/poll" in calls[:accept]


async def test_the_end_of_the_machine_gives_the_job_back_before_it_is_let_go(
    machine: Machine, bench: Any, duty: Any
) -> None:
    attempt = bench.offer(steps=10_000, pause_s=0.02)
    await bench.until(lambda: len(bench.coordinator.events[attempt]) > 5)
    machine.set(power="shutting-down")
    await bench.until(lambda: not duty.held, timeout_s=60)
    assert bench.coordinator.releases[attempt].reason == "shutdown"
    assert bench.worker.left.is_set()
    assert bench.processes_of(attempt) == []


async def test_a_logind_that_announces_sleep_waits_for_the_checkpoint(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with private_bus(tmp_path) as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        logind = FakeLogind(address)
        bench.settings = Settings(allow_uncontained=True, rules=OwnerRules(keep_awake="never"))
        worker = await bench.start_paired()
        serving = asyncio.create_task(PowerDuty(worker, LogindPower()).serve())
        attempt = bench.offer(steps=10_000, pause_s=0.02, checkpoint_every=100_000)
        await bench.until(lambda: logind.held() == 1 and len(bench.coordinator.events[attempt]) > 5)
        logind.announce("PrepareForSleep", True)
        await bench.until(lambda: logind.held() == 0)
        assert bench.worker.status().job.checkpoint_age_s is not None
        logind.announce("PrepareForSleep", False)
        await bench.until(lambda: logind.held() == 1)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        assert logind.held() == 0
        logind.close()
