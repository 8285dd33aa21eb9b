"""What a worker does when things go wrong that nobody asked for: full disks, races, errors nobody foresaw."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripted_coordinator import refusal  # pyright: ignore[reportMissingImports]

from worker_core.control.messages import ModeArgs, PairArgs, Request
from worker_core.control.server import ControlRefused
from worker_core.core import pairings
from worker_core.core.enrollment import Farewell, write_farewell
from worker_core.core.operations import CoreOperations
from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalFull
from worker_core.machine.keystore import Absent, open_store
from worker_core.machine.sources import SETTING

FULL = JournalFull("The disk is full.")


def fill(monkeypatch: pytest.MonkeyPatch, journal: Journal, method: str, times: int) -> None:
    """Let a method of the journal meet a full disk so many times."""
    honest, left = getattr(journal, method), [FULL] * times

    async def write(*args: Any, **options: Any) -> Any:
        if left:
            raise left.pop()
        return await honest(*args, **options)

    monkeypatch.setattr(journal, method, write)


async def test_a_job_given_back_while_the_worker_leaves_is_given_back_before_it_left(bench: Any) -> None:
    worker = await bench.start_paired()

    async def slowly(_: Any) -> None:
        worker.leave("checkpoint")
        await asyncio.sleep(0.3)

    bench.coordinator.script("POST", ".*/accept", slowly)
    attempt = bench.offer()
    await bench.until(worker.left.is_set)
    assert bench.coordinator.releases[attempt].reason == "shutdown"
    assert bench.processes_of(attempt) == []
    assert bench.coordinator.count("DELETE", "/v1/sessions/.*") == 1


async def test_a_revocation_while_a_job_is_accepted_leaves_nothing_of_it(bench: Any) -> None:
    worker = await bench.start_paired()

    async def slowly(_: Any) -> None:
        bench.coordinator.revoke()
        await bench.until(lambda: worker.known.life.standing == "revoked")

    bench.coordinator.script("POST", ".*/accept", slowly)
    attempt = bench.offer()
    await bench.until(lambda: worker.journal.fact("farewell") and not worker.journal.fact("enrollment"))
    seen = len(bench.coordinator.seen)
    await asyncio.sleep(1.5)
    assert worker.status().job is None
    assert await worker.journal.attempts() == []
    assert len(bench.coordinator.seen) == seen
    assert attempt not in bench.coordinator.completions
    assert worker.known.revocation is None


async def test_a_wipe_that_was_cut_short_goes_on_at_the_next_start(bench: Any) -> None:
    await bench.start_paired()
    await bench.stop()
    journal = Journal.open(bench.paths.state_db, boot_id="boot-1")
    gone = Farewell(coordinator=bench.coordinator.url, worker_name="lathe", by="ada", revoked_at="today")
    await write_farewell(journal, gone)
    await journal.close()
    seen = len(bench.coordinator.seen)
    worker = await bench.start()
    assert worker.status().state == "revoked"
    await bench.until(lambda: not worker.journal.fact("enrollment"))
    assert isinstance(open_store(bench.paths, "file").load(), Absent)
    assert "ada" in worker.status().detail
    assert len(bench.coordinator.seen) == seen


async def test_leaving_waits_for_a_wipe(bench: Any) -> None:
    worker = await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: bench.coordinator.events[attempt])
    bench.coordinator.revoke()
    await bench.until_state("revoked")
    await bench.stop("now")
    journal = Journal.open(bench.paths.state_db, boot_id="boot-1")
    assert journal.fact("enrollment") is None
    assert journal.fact("farewell")
    await journal.close()
    assert worker.status().state == "revoked"


async def test_a_full_disk_at_the_end_of_a_job_holds_its_end_up_and_loses_nothing(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: bench.coordinator.events[attempt])
    fill(monkeypatch, worker.journal, "put_release", 1)
    fill(monkeypatch, worker.journal, "forget_attempt", 1)
    await worker.set_mode("stop", False)
    await bench.until(lambda: bench.coordinator.releases.get(attempt))
    await bench.until_state("paused")
    await worker.set_mode("run", False)
    later = bench.offer(steps=3)
    await bench.until(lambda: later in bench.coordinator.completions)


async def test_a_full_disk_keeps_nobody_from_stopping_a_job(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: bench.coordinator.events[attempt])
    fill(monkeypatch, worker.journal, "set_local_mode", 1)
    operations = CoreOperations(worker, None)  # type: ignore[arg-type]
    stop = Request(id="1", op="mode", args=msgspec.to_builtins(ModeArgs(mode="stop")))
    with pytest.raises(ControlRefused, match="a restart forgets it"):
        await operations.perform(stop)
    await bench.until(lambda: bench.coordinator.releases.get(attempt))
    await bench.until_state("paused")


async def test_an_error_that_nobody_foresaw_in_a_job_s_run_frees_the_slot(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await bench.start_paired()

    def stumble(*_: Any) -> Any:
        monkeypatch.undo()
        raise ZeroDivisionError("nobody foresaw this")

    monkeypatch.setattr(worker._slot, "_make_run", stumble)
    attempt = bench.offer(steps=3)
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt))
    assert release.reason == "crash"
    later = bench.offer(steps=3)
    await bench.until(lambda: later in bench.coordinator.completions)


@pytest.mark.parametrize("call", ["accept", "decline"])
async def test_the_same_offer_is_answered_three_times_and_without_a_storm(bench: Any, call: str) -> None:
    worker = await bench.start_paired()
    bench.coordinator.script("POST", f".*/{call}", *[refusal("forbidden")] * 10_000)
    attempt = bench.offer()
    if call == "decline":
        worker.known.machine.obstacle = lambda: ("disk-full", "Free some space.")
        poll = lambda _: bench.coordinator.message(  # noqa: E731
            {"offer": bench.coordinator.signed_offer(*bench.coordinator.offers[0])}
        )
        bench.coordinator.script("POST", "/v1/poll", *[poll] * 10_000)
    await bench.until(lambda: bench.coordinator.count("POST", f".*/{call}") == 3)
    polls = bench.coordinator.count("POST", "/v1/poll")
    await asyncio.sleep(2.5)
    assert bench.coordinator.count("POST", f".*/{call}") == 3
    assert bench.coordinator.count("POST", "/v1/poll") - polls <= 4
    assert attempt not in bench.coordinator.accepted


async def test_an_attempt_that_was_here_is_not_started_again_when_its_offer_is_replayed(bench: Any) -> None:
    await bench.start_paired()
    attempt = bench.offer(steps=3)
    offered = bench.coordinator.offers[0]
    await bench.until(lambda: attempt in bench.coordinator.completions)
    accepts = bench.coordinator.count("POST", ".*/accept")
    bench.coordinator.offers.append(offered)
    bench.coordinator.accepted.pop(attempt)
    polls = len(bench.coordinator.polls)
    await bench.until(lambda: len(bench.coordinator.polls) > polls + 2)
    bench.coordinator.offers.clear()
    assert bench.coordinator.count("POST", ".*/accept") == accepts
    await bench.until_state("available")


async def test_a_job_sees_the_first_gpu_of_the_machine_and_no_other(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "sources.json"
    gpus = [{"uuid": f"GPU-{number}", "name": "scripted", "memory_bytes": 8} for number in (1, 2)]
    script.write_text(json.dumps({"gpus": gpus}))
    monkeypatch.setenv(SETTING, str(script))
    await bench.start_paired()
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: bench.coordinator.events[attempt])
    (job,) = bench.processes_of(attempt)
    assert job.environ()["CUDA_VISIBLE_DEVICES"] == "GPU-1"


async def test_a_full_disk_when_a_pairing_is_approved_delays_it(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await bench.start()
    fill(monkeypatch, worker.journal, "set_fact", 2)
    await worker.begin_pairing(
        PairArgs(coordinator=bench.coordinator.url, email="ada@example.org", credential_store="file")
    )
    assert (await worker.decision()).state == "approved"
    await bench.until_state("available")


async def test_a_full_disk_that_stays_full_when_a_pairing_is_approved_ends_it_in_words(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairings, "_INSIST_S", 0.0)
    worker = await bench.start()
    fill(monkeypatch, worker.journal, "set_fact", 1)
    await worker.begin_pairing(
        PairArgs(coordinator=bench.coordinator.url, email="ada@example.org", credential_store="file")
    )
    outcome = await worker.decision()
    assert (outcome.state, outcome.detail) == ("failed", "The disk is full.")
    assert worker.status().state == "unpaired"
    assert not bench.paths.credential_file.exists()
