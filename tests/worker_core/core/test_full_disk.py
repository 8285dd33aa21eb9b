"""A full disk leaves a living worker that says so, takes no job, and goes on by itself when there is room again."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripted_coordinator import refusal  # pyright: ignore[reportMissingImports]

from tests.faults.sources import SmallDisk
from worker_core.core import departure
from worker_core.core.opening import open_when_possible
from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalError, JournalFull
from worker_core.machine.sources import SETTING
from worker_core.wire.events import Dropped, Metric
from worker_core.wire.work import Limits

MEGABYTES = 24
SHORT_GRACE = Limits(max_runtime_s=600.0, max_disk_bytes=1 << 30, stop_grace_s=1.0, silence_s=300.0)


class FullDisk:
    """The volume of a home: a real small one where one can be mounted, else a journal that is told it is full."""

    def __init__(self, home: Path, script: Path) -> None:
        self._small = SmallDisk(home, MEGABYTES)
        self._script = script
        script.write_text("{}")

    def fill(self, journal: Journal | None) -> None:
        if self._small.mounted:
            self._small.fill()
        else:
            self._script.write_text(json.dumps({"disk_free_bytes": 0}))
            self._bound(journal, pages=1)

    def empty(self, journal: Journal | None) -> None:
        if self._small.mounted:
            self._small.empty()
        else:
            self._script.write_text("{}")
            self._bound(journal, pages=1 << 30)

    def close(self) -> None:
        self._small.close()

    @staticmethod
    def _bound(journal: Journal | None, pages: int) -> None:
        if journal is not None:
            # SQLite says the same of a file that may not grow as of a full disk.
            journal._database._connection.execute(f"PRAGMA max_page_count = {pages}")  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FullDisk]:
    monkeypatch.setenv(SETTING, str(tmp_path / "readings.json"))
    made = FullDisk(tmp_path / "home", tmp_path / "readings.json")
    yield made
    made.close()


async def test_a_job_on_a_disk_that_fills_up_loses_nothing_and_the_worker_recovers(disk: FullDisk, bench: Any) -> None:
    bench.settings = msgspec.structs.replace(bench.settings, min_free_bytes=1 << 20)
    worker = await bench.start_paired()
    attempt = bench.offer(steps=300, pause_s=0.01, checkpoint_every=10_000)
    await bench.until(lambda: worker.status().job is not None and worker.status().job.step > 20)
    disk.fill(worker.journal)
    await bench.until(lambda: "disk-full" in worker.status().reasons, 30.0)
    assert "full" in worker.status().detail.lower()
    beats = bench.coordinator.count("POST", "/v1/heartbeat")
    await bench.until(lambda: bench.coordinator.count("POST", "/v1/heartbeat") > beats, 30.0)
    disk.empty(worker.journal)
    await bench.until(lambda: attempt in bench.coordinator.completions, 60.0)
    await bench.until(lambda: "disk-full" not in worker.status().reasons, 60.0)
    assert bench.coordinator.completions[attempt].outcome == "succeeded"
    steps = [event.step for event in bench.coordinator.events[attempt] if isinstance(event, Metric)]
    assert steps == list(range(1, 301))


async def test_a_worker_told_to_leave_does_not_wait_for_room_and_the_next_one_winds_its_job_up(
    disk: FullDisk, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departure, "_TREE_GONE_S", 2.0)
    bench.settings = msgspec.structs.replace(bench.settings, min_free_bytes=1 << 20)
    worker = await bench.start_paired()
    spec = json.dumps({"steps": 10_000, "pause_s": 0.01, "checkpoint_every": 10_000})
    attempt = bench.coordinator.offer(spec, limits=SHORT_GRACE)
    await bench.until(lambda: worker.status().job is not None and worker.status().job.step > 20)
    disk.fill(worker.journal)
    await bench.until(lambda: "disk-full" in worker.status().reasons, 30.0)
    worker.leave("checkpoint")
    await bench.until(worker.left.is_set, 30.0)
    assert bench.processes_of(attempt) == []
    disk.empty(worker.journal)
    await bench.stop()
    await bench.start()
    await bench.until(lambda: attempt in bench.coordinator.releases, 30.0)
    assert bench.coordinator.completions == {}


async def test_a_worker_that_starts_on_a_full_disk_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker_core.core.opening.LOOK_AGAIN_S", 0.01)
    left = [JournalFull("The disk is full.")] * 3

    def open_journal() -> Journal:
        if left:
            raise left.pop()
        return Journal.open(tmp_path / "state.db", boot_id="one")

    async with asyncio.timeout(10):
        journal = await open_when_possible(open_journal)
    await journal.close()


async def test_a_journal_that_is_broken_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(JournalError, match="cannot be used"):
        await open_when_possible(lambda: Journal.open(tmp_path / "state.db", boot_id="one"))


async def test_a_worker_whose_outbox_is_over_its_budget_takes_no_job_until_it_is_delivered(bench: Any) -> None:
    bench.settings = msgspec.structs.replace(bench.settings, outbox_bytes=20_000)
    # What went out once is never thinned, so a batch has to be small beside such a budget.
    bench.coordinator.params = msgspec.structs.replace(bench.coordinator.params, events_max=20)
    worker = await bench.start_paired()
    away = asyncio.Event()
    bench.coordinator.script(
        "POST", ".*/events", *[lambda _: None if away.is_set() else refusal("disk-full", retry_after_s=0.2)] * 500
    )
    attempt = bench.offer(steps=300, pause_s=0.005, checkpoint_every=10_000)
    await bench.until(lambda: "outbox-full" in worker.status().reasons, 30.0)
    await bench.until(lambda: "outbox-full" in bench.coordinator.heartbeats[-1].health.degraded, 30.0)
    assert worker.journal.used_bytes() < 2 * 20_000
    away.set()
    await bench.until(lambda: attempt in bench.coordinator.completions, 60.0)
    await bench.until(lambda: "outbox-full" not in worker.status().reasons, 30.0)
    events = bench.coordinator.events[attempt]
    said = sum(isinstance(event, Metric) for event in events)
    dropped = sum(event.count for event in events if isinstance(event, Dropped) and event.what == "metrics")
    assert said + dropped == 300
    assert dropped > 0
    assert bench.coordinator.completions[attempt].outcome == "succeeded"


async def test_a_job_given_back_unstarted_on_a_full_disk_is_never_told_as_failed(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await bench.start_paired()
    put_release, refused = Journal.put_release, [JournalFull("The disk is full.")] * 3

    async def put_when_there_is_room(journal: Journal, attempt_id: str, release: Any) -> None:
        if refused:
            raise refused.pop()
        await put_release(journal, attempt_id, release)

    async def stop_first(_: Any) -> None:
        await worker.set_mode("stop", now=False)

    monkeypatch.setattr(Journal, "put_release", put_when_there_is_room)
    bench.coordinator.script("POST", ".*/accept", stop_first)
    attempt = bench.offer()
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt), timeout_s=30)
    assert release.reason == "stopped"
    assert attempt not in bench.coordinator.completions
