"""What a contained job may use, how it is ended, and what its end means."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from worker_core.jobs.process import find_tree
from worker_core.jobs.sandbox.confinement import Confinement
from worker_core.jobs.workspace import remove_workspace
from worker_core.journal.records import NewAttempt

Confine = Callable[..., Confinement]
NewRow = Callable[..., NewAttempt]


def limited(attempt: NewRow, **limits: Any) -> NewAttempt:
    return attempt(limits=msgspec.structs.replace(attempt().accepted.limits, **limits))


def nothing_left(bench: Any) -> bool:
    return find_tree(None, bench.attempt_id) == []


async def test_what_programs_take_for_granted_works_inside(bench: Any, confine: Confine) -> None:
    async with asyncio.timeout(60):
        end = await (await bench.start("use-the-system", confinement=confine())).run()
    assert (end.outcome, end.error) == ("succeeded", None)


async def test_a_job_that_eats_memory_fails_as_out_of_memory(bench: Any, attempt: NewRow, confine: Confine) -> None:
    row = limited(attempt, max_memory_bytes=300 << 20)
    async with asyncio.timeout(60):
        end = await (await bench.start("eat-memory", row, confinement=confine())).run()
    assert end.error is not None
    # The kernel refuses the process the memory (MemoryError, exit 1), or the watch over the tree ends it first.
    assert end.error.failure == "out-of-memory" or "MemoryError" in end.error.traceback
    assert nothing_left(bench)


@pytest.mark.parametrize("behaviour", ["eat-shared-memory", "eat-memory-in-files"])
async def test_memory_that_no_process_has_for_itself_counts(
    bench: Any, attempt: NewRow, confine: Confine, behaviour: str
) -> None:
    row = limited(attempt, max_memory_bytes=300 << 20)
    async with asyncio.timeout(60):
        end = await (await bench.start(behaviour, row, confinement=confine())).run()
    assert end.error is not None
    assert end.error.failure == "out-of-memory"
    assert nothing_left(bench)


async def test_memory_counts_for_all_processes_of_a_job_together(bench: Any, attempt: NewRow, confine: Confine) -> None:
    row = limited(attempt, max_memory_bytes=300 << 20)
    async with asyncio.timeout(60):
        end = await (await bench.start("eat-memory-in-children", row, confinement=confine())).run()
    assert end.error is not None
    assert end.error.failure == "out-of-memory"
    assert "0.3 GB" in end.error.message
    assert nothing_left(bench)


async def test_a_job_that_multiplies_is_ended(bench: Any, confine: Confine) -> None:
    async with asyncio.timeout(60):
        end = await (await bench.start("multiply", confinement=confine(max_processes=40))).run()
    assert end.error is not None
    assert end.error.failure == "exception"
    assert "40 processes" in end.error.message
    assert nothing_left(bench)


@pytest.mark.parametrize("behaviour", ["fill-the-disk", "hide-on-the-disk", "nest-deeply"])
async def test_too_much_on_disk_is_seen_within_seconds(
    bench: Any, attempt: NewRow, confine: Confine, behaviour: str
) -> None:
    run = await bench.start(behaviour, limited(attempt, max_disk_bytes=1 << 20), confinement=confine())
    task = asyncio.create_task(run.run())
    await bench.until(lambda: run.progress.phase == "running")
    began = time.monotonic()
    async with asyncio.timeout(60):
        end = await task
    assert end.error is not None
    assert (end.error.failure, end.forced) == ("disk-full", False)
    assert time.monotonic() - began < 10
    assert await remove_workspace(bench.paths, bench.attempt_id)  # however deep it is


@pytest.mark.parametrize(("behaviour", "name"), [("segfault", "SIGSEGV"), ("kill-itself", "SIGKILL")])
async def test_a_signal_inside_is_told_by_its_name(bench: Any, confine: Confine, behaviour: str, name: str) -> None:
    async with asyncio.timeout(60):
        end = await (await bench.start(behaviour, confinement=confine())).run()
    assert end.error is not None
    assert (end.error.failure, end.error.message) == ("signal", f"The job process was ended by {name}.")
    assert end.exit is not None
    assert end.exit < 0


async def test_a_child_that_holds_the_pipe_open_delays_nothing_and_is_told(bench: Any, confine: Confine) -> None:
    async with asyncio.timeout(60):
        end = await (await bench.start("leave-a-child", confinement=confine())).run()
    assert (end.outcome, end.note) == (
        "succeeded",
        "The job left 1 process(es) running in the background; they were ended.",
    )
    assert nothing_left(bench)


async def test_a_job_that_leaves_nothing_has_no_note(bench: Any, confine: Confine) -> None:
    for _ in range(3):
        end = await (await bench.start("succeed", confinement=confine())).run()
        assert (end.outcome, end.note) == ("succeeded", "")


async def test_a_whole_tree_with_sessions_of_its_own_is_gone_at_the_grace(
    bench: Any, attempt: NewRow, confine: Confine
) -> None:
    run = await bench.start("grow-a-tree", limited(attempt, stop_grace_s=0.5), confinement=confine())
    task = asyncio.create_task(run.run())
    await bench.until(lambda: run.progress.step == 3)
    run.stop()
    async with asyncio.timeout(30):
        end = await task
    assert (end.how, end.forced) == ("stopped", True)
    assert nothing_left(bench)


async def test_what_a_job_is_sent_and_when_is_as_documented(bench: Any, attempt: NewRow, confine: Confine) -> None:
    run = await bench.start("note-orders", limited(attempt, stop_grace_s=2), confinement=confine())
    task = asyncio.create_task(run.run())
    workspace = bench.paths.workspaces / bench.attempt_id
    await bench.until(lambda: run.progress.phase == "running" and run.progress.label != "")
    stopped = time.time()
    run.stop()
    async with asyncio.timeout(30):
        end = await task
    notes = [line.split() for line in read(workspace / "tmp" / "notes").splitlines()]
    received = [(what, float(at) - stopped) for at, what in notes if what != "alive"]
    last_alive = float(notes[-1][0]) - stopped
    assert [what for what, _ in received] == ["stop"]  # no signal before the grace is over, and then the last one
    assert received[0][1] < 0.5
    assert abs(last_alive - 2) < 0.5
    assert end.forced


async def test_a_job_is_the_victim_when_memory_runs_out_and_behind_in_everything(bench: Any, confine: Confine) -> None:
    run = await bench.start("obey", confinement=confine())
    task = asyncio.create_task(run.run())
    await bench.until(lambda: bench.metrics)
    assert run.identity is not None
    inside = [process for process in find_tree(run.identity, bench.attempt_id) if process.pid != run.identity.pid]
    assert len(inside) == 2
    for process in inside:
        assert int(read(Path(f"/proc/{process.pid}/oom_score_adj"))) >= 800
        assert (process.nice(), process.ionice().value) == (10, 7)
        assert read(Path(f"/proc/{process.pid}/autogroup")).split()[-1] == "10"
    assert psutil.Process().nice() < 10
    run.stop()
    await task


async def test_a_job_that_pushes_to_the_front_is_put_behind_again_with_its_sessions(
    bench: Any, confine: Confine
) -> None:
    run = await bench.start("make-sessions", confinement=confine())
    task = asyncio.create_task(run.run())
    await bench.until(lambda: bench.metrics)
    assert run.identity is not None
    tree = [process for process in find_tree(run.identity, bench.attempt_id) if process.pid != run.identity.pid]
    assert sum(process.name() == "sleep" for process in tree) == 3

    def is_behind(process: psutil.Process) -> bool:
        folder = Path(f"/proc/{process.pid}")
        return read(folder / "autogroup").split()[-1] == "10" and int(read(folder / "oom_score_adj")) >= 800

    await bench.until(lambda: all(map(is_behind, tree)))
    run.stop()
    await task


def read(file: Path) -> str:
    return file.read_text()
