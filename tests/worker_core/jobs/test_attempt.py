"""Attempts with real processes: how they end, what is kept of them, and that nothing of them stays behind."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from worker_core.jobs import attempt as attempt_module
from worker_core.jobs.blobs import blob_path
from worker_core.jobs.pipes import PipeReader
from worker_core.jobs.process import find_tree
from worker_core.journal.records import Appended, JournalFull, NewAttempt
from worker_core.wire.events import CheckpointSaved, Dropped, Event, Log, Metric
from worker_core.wire.frames import Done
from worker_core.wire.signed import Input
from worker_core.wire.work import Limits

LIMITS = Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=10, silence_s=30)


async def test_a_job_that_says_it_succeeded_succeeds_with_all_it_said(bench: Any) -> None:
    run = await bench.start("succeed")
    end = await run.run()
    assert (end.how, end.outcome, end.error, end.exit) == ("finished", "succeeded", None, 0)
    assert end.usage.steps == 3
    events = await bench.events()
    metrics = [event for event in events if isinstance(event, Metric)]
    assert [metric.step for metric in metrics] == [1, 2, 3] == [metric.step for metric in bench.metrics]
    assert metrics[0].values == {"loss": 1.0, "odd": "NaN"}
    assert "a line of output" in await bench.lines("stdout")
    row = await bench.journal.attempt(bench.attempt_id)
    assert row.end == end
    assert row.done.outcome == "succeeded"
    assert row.checkpoint.step == 3
    assert run.progress.checkpoint_step == 3


async def test_files_of_a_job_are_blobs_that_wait_for_their_upload(bench: Any) -> None:
    run = await bench.start("succeed")
    await run.run()
    uploads = await bench.journal.uploads(bench.attempt_id)
    assert [(upload.kind, upload.name) for upload in uploads] == [
        ("checkpoint", "step-000000000003.safetensors"),
        ("result", "benchmark.json"),
    ]
    assert blob_path(bench.paths.blobs, uploads[1].sha256).read_bytes() == b'{"return": 1}'
    assert bench.journal.outbox().bytes >= sum(upload.size for upload in uploads)


async def test_a_job_that_says_it_failed_keeps_its_class_and_traceback(bench: Any) -> None:
    run = await bench.start("fail")
    end = await run.run()
    assert (end.how, end.outcome) == ("finished", "failed")
    assert (end.error.failure, end.error.traceback) == ("bad-spec", "Traceback …")


async def test_a_crash_is_an_exception_with_the_last_lines_of_its_output(bench: Any) -> None:
    run = await bench.start("crash")
    end = await run.run()
    assert (end.outcome, end.error.failure, end.exit) == ("failed", "exception", 1)
    assert "about to fail" in end.error.traceback
    assert "the simulator fell over" in end.error.traceback


async def test_a_process_that_dies_before_its_first_word_did_not_start(bench: Any) -> None:
    end = await (await bench.start("crash-at-start")).run()
    assert (end.error.failure, end.exit) == ("start-failed", 3)
    assert "no such module" in end.error.traceback


@pytest.mark.parametrize(("behaviour", "name"), [("segfault", "SIGSEGV"), ("kill-itself", "SIGKILL")])
async def test_a_signal_is_named(bench: Any, behaviour: str, name: str) -> None:
    end = await (await bench.start(behaviour)).run()
    assert end.error.failure == "signal"
    assert name in end.error.message


async def test_leaving_without_a_word_is_not_success(bench: Any) -> None:
    end = await (await bench.start("leave-in-silence")).run()
    assert (end.outcome, end.error.failure) == ("failed", "exception")


async def test_a_silent_job_is_ended(bench: Any, attempt: Callable[..., NewAttempt]) -> None:
    limits = msgspec.structs.replace(LIMITS, silence_s=1.5)
    began = time.monotonic()
    end = await (await bench.start("be-silent", attempt(limits=limits))).run()
    assert end.error.failure == "silence"
    assert time.monotonic() - began < 15


async def test_a_job_above_its_time_limit_is_stopped_with_a_checkpoint(
    bench: Any, attempt: Callable[..., NewAttempt]
) -> None:
    limits = msgspec.structs.replace(LIMITS, max_runtime_s=2.0)
    end = await (await bench.start("obey", attempt(limits=limits))).run()
    assert (end.how, end.outcome) == ("finished", "failed")
    assert "longer than" in end.error.message
    assert (await bench.journal.attempt(bench.attempt_id)).checkpoint is not None


async def test_a_stopped_job_saves_its_work_and_its_last_line(bench: Any) -> None:
    run = await bench.start("obey")
    task = asyncio.create_task(run.run())
    await bench.until(lambda: bench.metrics)
    run.stop()
    assert run.progress.phase == "stopping"
    end = await task
    assert (end.how, end.outcome, end.forced) == ("stopped", None, False)
    assert "the last line" in await bench.lines("stdout")
    checkpoint = (await bench.journal.attempt(bench.attempt_id)).checkpoint
    assert blob_path(bench.paths.blobs, checkpoint.sha256).exists()


async def test_a_job_that_a_signal_from_outside_stops_has_failed_with_its_work_saved(bench: Any) -> None:
    end = await (await bench.start("leave-unasked")).run()
    assert (end.how, end.outcome, end.error.failure) == ("finished", "failed", "signal")
    assert (await bench.journal.attempt(bench.attempt_id)).checkpoint is not None


async def test_a_checkpoint_can_be_had_at_any_time(bench: Any) -> None:
    run = await bench.start("obey")
    task = asyncio.create_task(run.run())
    await bench.until(lambda: bench.metrics)
    run.checkpoint_now()
    await bench.until(lambda: run.progress.checkpoint_step is not None)
    assert run.progress.checkpoint_age_s < 20
    run.stop()
    await task
    assert sum(isinstance(event, CheckpointSaved) for event in await bench.events()) == 2


async def test_older_checkpoints_do_not_pile_up(bench: Any) -> None:
    run = await bench.start("obey")
    task = asyncio.create_task(run.run())
    await bench.until(lambda: bench.metrics)
    seen: list[int] = []
    for _ in range(3):
        run.checkpoint_now()
        await bench.until(lambda: run.progress.checkpoint_step not in (None, *seen))
        seen.append(run.progress.checkpoint_step)
    run.stop()
    await task
    checkpoint = (await bench.journal.attempt(bench.attempt_id)).checkpoint
    assert [path.name for path in bench.paths.blobs.glob("??/*")] == [checkpoint.sha256]


async def test_a_job_that_ignores_its_stop_is_killed_at_the_end_of_the_grace(bench: Any) -> None:
    run = await bench.start("ignore-orders")
    task = asyncio.create_task(run.run())
    await bench.until(lambda: bench.metrics)
    asked = time.monotonic()
    run.stop(1.0)
    end = await task
    assert (end.how, end.forced) == ("stopped", True)
    assert 0.9 <= time.monotonic() - asked < 8


async def test_nothing_of_a_tree_is_left_not_even_sessions_of_their_own(bench: Any) -> None:
    run = await bench.start("grow-a-tree")
    task = asyncio.create_task(run.run())
    await bench.until(lambda: bench.metrics)
    # Main process, 3 x (parent + 2 children) and the orphan.
    assert len(await asyncio.to_thread(find_tree, None, bench.attempt_id)) == 11
    run.kill()
    async with asyncio.timeout(15):
        end = await task
    assert (end.how, end.forced) == ("stopped", True)
    assert await asyncio.to_thread(find_tree, None, bench.attempt_id) == []


async def test_a_background_child_that_holds_the_output_does_not_hold_the_job(bench: Any) -> None:
    run = await bench.start("leave-a-child")
    async with asyncio.timeout(10):
        end = await run.run()
    assert (end.outcome, end.forced) == ("succeeded", False)
    assert "1 process" in end.note
    assert await asyncio.to_thread(find_tree, None, bench.attempt_id) == []


async def test_a_job_that_stays_after_its_last_word_is_ended_and_the_word_counts(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "_LEAVE_LIMIT_S", 0.5)
    async with asyncio.timeout(20):
        end = await (await bench.start("linger")).run()
    assert (end.outcome, end.error, end.forced) == ("succeeded", None, True)


async def test_a_last_word_that_the_journal_cannot_keep_yet_is_not_lost(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "_DRAIN_LIMIT_S", 0.2)
    keep, tries = bench.journal.set_done, []

    async def keep_at_the_second_try(attempt_id: str, done: Done) -> None:
        tries.append(done)
        if len(tries) == 1:
            raise JournalFull("the disk is full")
        await keep(attempt_id, done)

    monkeypatch.setattr(bench.journal, "set_done", keep_at_the_second_try)
    async with asyncio.timeout(20):
        end = await (await bench.start("leave-at-once")).run()
    assert (end.outcome, end.error) == ("succeeded", None)
    assert (await bench.journal.attempt(bench.attempt_id)).done.outcome == "succeeded"


class HeldOpen(PipeReader):
    """Output that never ends, because a process that cannot be found holds it."""

    async def chunks(self) -> AsyncIterator[bytes]:
        async for data in super().chunks():
            yield data
        await asyncio.Event().wait()


async def test_a_job_that_nobody_can_listen_to_is_ended_at_once(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await bench.start("ignore-orders")
    keep = bench.journal.append

    def fail(attempt_id: str, event: Event) -> Appended:
        if isinstance(event, Metric):
            raise RuntimeError("a fault of ours")
        return keep(attempt_id, event)

    monkeypatch.setattr(bench.journal, "append", fail)
    monkeypatch.setattr(attempt_module, "_DRAIN_LIMIT_S", 0.2)
    monkeypatch.setattr(attempt_module, "PipeReader", HeldOpen)
    async with asyncio.timeout(20):
        end = await run.run()
    assert (end.outcome, end.error.failure) == ("failed", "exception")
    assert "a fault of ours" in end.error.message


@pytest.mark.parametrize("behaviour", ["write-garbage", "write-too-much", "escape"])
async def test_a_job_that_breaks_the_channel_is_ended_with_a_clear_text(bench: Any, behaviour: str) -> None:
    async with asyncio.timeout(60):
        end = await (await bench.start(behaviour)).run()
    assert (end.outcome, end.error.failure) == ("failed", "exception")
    assert "cannot be used" in end.error.message


async def test_a_torn_last_frame_is_not_an_ending(bench: Any) -> None:
    end = await (await bench.start("tear-a-frame")).run()
    assert (end.outcome, end.error.failure) == ("failed", "exception")


async def test_a_hundred_thousand_progress_updates_become_a_few_lines(bench: Any) -> None:
    end = await (await bench.start("draw-progress")).run()
    assert end.outcome == "succeeded"
    lines = await bench.lines("stderr")
    assert lines[-1] == "100.0%"
    assert len(lines) < 60


async def test_a_flood_of_lines_is_cut_and_the_rest_counted(bench: Any) -> None:
    await (await bench.start("flood")).run()
    dropped = [event for event in await bench.events() if isinstance(event, Dropped)]
    kept = await bench.lines("stdout")
    assert len(kept) + sum(event.count for event in dropped) == 5000
    assert len(kept) >= 200


async def test_a_job_sees_its_files_and_nothing_secret(
    bench: Any, attempt: Callable[..., NewAttempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    await (await bench.start("show-environment")).run()
    shown = json.loads((await bench.lines("stoker"))[1])
    workspace = str(bench.paths.workspaces / bench.attempt_id)
    assert "secret" not in json.dumps(shown["environment"])
    assert shown["environment"]["HOME"] == f"{workspace}/tmp"
    assert shown["environment"]["STOKER_ATTEMPT"] == bench.attempt_id
    assert shown["spec"] == '{"kind":"test"}'
    assert shown["job"] == {"job_id": "job_1", "attempt_id": bench.attempt_id, "attempt": 1}
    assert shown["nice"] >= 10
    assert str(os.getpid()) not in shown["argv"]


async def test_a_job_stopped_before_its_start_never_starts(bench: Any) -> None:
    run = await bench.start("succeed")
    run.stop()
    end = await run.run()
    assert end.how == "stopped"
    assert (await bench.journal.attempt(bench.attempt_id)).pid is None


async def test_a_revocation_does_not_wait_for_an_input_that_hangs(
    bench: Any, attempt: Callable[..., NewAttempt]
) -> None:
    released = asyncio.Event()

    async def hang(sha256: str, size: int, destination: Path) -> None:
        await released.wait()
        await asyncio.to_thread(destination.write_bytes, b"x" * size)

    row = attempt(inputs=(Input(name="data", sha256="a" * 64, size=1),))
    run = await bench.start("succeed", row, hang)
    task = asyncio.create_task(run.run())
    await asyncio.sleep(0.1)
    run.kill()
    async with asyncio.timeout(2):
        assert (await task).how == "stopped"
    released.set()
    await asyncio.sleep(0.2)


async def test_a_full_disk_holds_a_job_up_and_loses_nothing(bench: Any) -> None:
    run = await bench.start("obey")
    task = asyncio.create_task(run.run())
    await bench.until(lambda: bench.metrics)
    await limit_pages(bench, 1)
    for _ in range(3):
        bench.journal.append(bench.attempt_id, Log(ts=1.0, stream="stoker", text="x" * 8000))
    before = len(bench.metrics)
    await bench.until(lambda: "is full" in bench.journal.fault and len(bench.metrics) > before)
    run.stop()
    await asyncio.sleep(2)
    assert not task.done()
    assert (await bench.journal.attempt(bench.attempt_id)).end is None
    await limit_pages(bench, 1_000_000)
    async with asyncio.timeout(30):
        end = await task
    assert (end.how, end.forced) == ("stopped", False)
    assert (await bench.journal.attempt(bench.attempt_id)).checkpoint is not None
    metrics = [event.step for event in await bench.events() if isinstance(event, Metric)]
    assert metrics == list(range(1, len(metrics) + 1))


async def test_a_job_that_waits_for_a_full_disk_is_not_silent(bench: Any, attempt: Callable[..., NewAttempt]) -> None:
    run = await bench.start("wait-for-acks", attempt(limits=msgspec.structs.replace(LIMITS, silence_s=1.5)))
    task = asyncio.create_task(run.run())
    await bench.until(lambda: bench.metrics)
    await limit_pages(bench, 1)
    bench.journal.append(bench.attempt_id, Log(ts=1.0, stream="stoker", text="x" * 60_000))
    await asyncio.sleep(4)
    assert "is full" in bench.journal.fault
    assert not task.done()
    before = len(bench.metrics)
    await limit_pages(bench, 1_000_000)
    await bench.until(lambda: len(bench.metrics) > before + 1)
    run.kill()
    assert (await task).how == "stopped"


async def limit_pages(bench: Any, pages: int) -> None:
    """Let the journal's file grow no further, as a full disk would."""

    def act(connection: Any) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()

    await bench.journal._database.run(act, durable=False)
