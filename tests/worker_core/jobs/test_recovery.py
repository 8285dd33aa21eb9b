"""After the core was killed in mid-job: its job leaves or is ended, and its last checkpoint is found."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from worker_core.jobs.blobs import blob_path
from worker_core.jobs.process import end_tree, find_tree
from worker_core.jobs.recovery import recover_attempt
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, NewAttempt
from worker_core.machine.host import boot_id
from worker_core.machine.paths import Paths
from worker_core.wire.codec import encode
from worker_core.wire.events import CheckpointSaved, Metric
from worker_core.wire.frames import LAST_WORD_FILE, Done, JobError

CORE = Path(__file__).parents[2] / "jobs_fixtures" / "core.py"


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


@contextmanager
def killed_core(paths: Paths, behaviour: str, row: NewAttempt, after: str) -> Generator[None]:
    """Let a core run a job until it prints ``after``, then kill the core alone, as a crash would."""
    home = paths.data.parent
    (home / "attempt.json").write_bytes(encode(row))
    command = [sys.executable, str(CORE), str(home), behaviour]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as core:
        assert core.stdout is not None
        for line in core.stdout:
            if line.startswith(after):
                break
        os.kill(core.pid, signal.SIGKILL)
    try:
        yield
    finally:
        end_tree(None, row.attempt_id, limit_s=10)


async def recover(paths: Paths, row: NewAttempt, grace_s: float) -> tuple[AttemptEnd, Any, Any]:
    journal = Journal.open(paths.state_db, boot_id=boot_id())
    found = await journal.attempt(row.attempt_id)
    assert found is not None
    end = await recover_attempt(found, paths=paths, journal=journal, grace_s=grace_s)
    after = await journal.attempt(row.attempt_id)
    events = await journal.next_events(row.attempt_id, max_events=10_000)
    await journal.close()
    return end, after, events.events if events else ()


async def test_the_checkpoint_a_job_saved_after_its_core_died_is_found(
    paths: Paths, attempt: Callable[..., NewAttempt]
) -> None:
    row = attempt()
    with killed_core(paths, "obey", row, "step 25"):
        end, after, events = await recover(paths, row, grace_s=20)
        assert (end.how, end.forced) == ("interrupted", False)
        assert after.end == end
        metrics = [event.step for event in events if isinstance(event, Metric)]
        assert metrics == list(range(1, len(metrics) + 1))
        assert after.checkpoint.step >= max(metrics)
        assert blob_path(paths.blobs, after.checkpoint.sha256).exists()
        assert isinstance(events[-1], CheckpointSaved)


async def test_a_job_that_does_not_leave_is_ended_so_that_there_are_never_two(
    paths: Paths, attempt: Callable[..., NewAttempt]
) -> None:
    row = attempt()
    with killed_core(paths, "grow-a-tree", row, "step 1"):
        assert len(await asyncio.to_thread(find_tree, None, row.attempt_id)) == 11
        end, after, _ = await recover(paths, row, grace_s=0.5)
        assert (end.how, end.forced, after.checkpoint) == ("interrupted", True, None)
        assert await asyncio.to_thread(find_tree, None, row.attempt_id) == []


async def test_a_job_that_had_said_how_it_failed_stays_failed(bench: Any, attempt: Callable[..., NewAttempt]) -> None:
    row = attempt()
    await bench.journal.add_attempt(row)
    error = JobError(failure="exception", message="it broke")
    await bench.journal.set_done(row.attempt_id, Done(outcome="failed", error=error))
    held = await bench.journal.attempt(row.attempt_id)
    end = await recover_attempt(held, paths=bench.paths, journal=bench.journal, grace_s=1)
    assert (end.how, end.outcome, end.error) == ("finished", "failed", error)


def leave_word(bench: Any, attempt_id: str, outcome: str, files: dict[str, bytes], **changes: Any) -> None:
    """Write what a job leaves that ended while no core was there."""
    workspace = bench.paths.workspaces / attempt_id
    (workspace / "results").mkdir(parents=True)
    announced: list[dict[str, Any]] = []
    for name, content in files.items():
        (workspace / "results" / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        told = {"name": name, "kind": "result", "path": f"results/{name}", "sha256": digest, "size": len(content)}
        announced.append(told | changes)
    error = {"failure": "exception", "message": "it broke"} if outcome == "failed" else None
    word = {"done": {"outcome": outcome, "error": error}, "exit": int(outcome == "failed"), "artifacts": announced}
    (workspace / LAST_WORD_FILE).write_bytes(encode(word))


async def test_notes_that_are_pipes_or_links_hold_nobody_up(
    bench: Any, attempt: Callable[..., NewAttempt], tmp_path: Path
) -> None:
    row = attempt()
    await bench.journal.add_attempt(row)
    workspace = bench.paths.workspaces / row.attempt_id
    (workspace / "checkpoints").mkdir(parents=True)
    os.mkfifo(workspace / LAST_WORD_FILE)
    word = {"done": {"outcome": "succeeded"}, "exit": 0, "artifacts": []}
    (tmp_path / "elsewhere").write_bytes(encode(word))
    (workspace / "checkpoints" / "latest.json").symlink_to(tmp_path / "elsewhere")
    held = await bench.journal.attempt(row.attempt_id)
    async with asyncio.timeout(20):
        end = await recover_attempt(held, paths=bench.paths, journal=bench.journal, grace_s=0)
    assert end.how == "interrupted"


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
async def test_a_job_that_ended_while_no_core_was_there_has_its_own_end_and_its_files(
    bench: Any, attempt: Callable[..., NewAttempt], outcome: str
) -> None:
    row = attempt()
    await bench.journal.add_attempt(row)
    leave_word(bench, row.attempt_id, outcome, {"policy": b"weights"})
    held = await bench.journal.attempt(row.attempt_id)
    end = await recover_attempt(held, paths=bench.paths, journal=bench.journal, grace_s=1)
    assert (end.how, end.outcome, end.exit) == ("finished", outcome, int(outcome == "failed"))
    assert (end.error.message if end.error else "") == ("it broke" if outcome == "failed" else "")
    (upload,) = await bench.journal.uploads(row.attempt_id)
    assert blob_path(bench.paths.blobs, upload.sha256).read_bytes() == b"weights"
    assert (await bench.journal.attempt(row.attempt_id)).done.outcome == outcome
    events = await bench.journal.next_events(row.attempt_id)
    assert "may be missing" in events.events[-1].reason


async def test_a_success_whose_files_are_not_there_does_not_count(
    bench: Any, attempt: Callable[..., NewAttempt]
) -> None:
    row = attempt()
    await bench.journal.add_attempt(row)
    leave_word(bench, row.attempt_id, "succeeded", {"policy": b"weights"}, sha256="0" * 64)
    held = await bench.journal.attempt(row.attempt_id)
    end = await recover_attempt(held, paths=bench.paths, journal=bench.journal, grace_s=1)
    assert (end.how, end.outcome) == ("interrupted", None)


async def test_an_end_that_was_recorded_is_final(bench: Any, attempt: Callable[..., NewAttempt]) -> None:
    row = attempt()
    await bench.journal.add_attempt(row)
    end = AttemptEnd(how="stopped", note="by hand")
    await bench.journal.set_end(row.attempt_id, end)
    held = await bench.journal.attempt(row.attempt_id)
    assert await recover_attempt(held, paths=bench.paths, journal=bench.journal, grace_s=1) == end


async def test_a_torn_last_checkpoint_is_named_and_not_used(bench: Any, attempt: Callable[..., NewAttempt]) -> None:
    row = attempt()
    await bench.journal.add_attempt(row)
    folder = bench.paths.workspaces / row.attempt_id / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "step-5").write_bytes(b"half")
    (folder / "latest.json").write_bytes(
        encode({"path": "checkpoints/step-5", "step": 5, "sha256": "0" * 64, "size": 8})
    )
    held = await bench.journal.attempt(row.attempt_id)
    end = await recover_attempt(held, paths=bench.paths, journal=bench.journal, grace_s=1)
    bench.attempt_id = row.attempt_id
    assert end.how == "interrupted"
    assert (await bench.journal.attempt(row.attempt_id)).checkpoint is None
    assert "step 5" in (await bench.lines("stoker"))[-1]


async def test_another_process_with_the_old_number_is_left_alone(
    bench: Any, attempt: Callable[..., NewAttempt], stranger: "subprocess.Popen[bytes]"
) -> None:
    row = attempt()
    await bench.journal.add_attempt(row)
    await bench.journal.set_process(row.attempt_id, stranger.pid, 1.0)
    held = await bench.journal.attempt(row.attempt_id)
    await recover_attempt(held, paths=bench.paths, journal=bench.journal, grace_s=1)
    assert stranger.poll() is None


def test_an_attempt_as_written_down_can_be_read_again(attempt: Callable[..., NewAttempt]) -> None:
    row = attempt()
    assert msgspec.json.decode(encode(row), type=NewAttempt) == row
