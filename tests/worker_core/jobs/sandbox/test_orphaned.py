"""A contained job whose core was killed leaves by itself with a checkpoint, or is ended, with or without bwrap."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from worker_core.jobs.process import end_tree, find_tree
from worker_core.jobs.recovery import recover_attempt
from worker_core.journal.journal import Journal
from worker_core.journal.records import NewAttempt
from worker_core.machine.host import boot_id
from worker_core.machine.paths import Paths
from worker_core.wire.codec import encode

CORE = Path(__file__).parents[3] / "jobs_fixtures" / "core.py"


def run_and_kill_core(paths: Paths, behaviour: str, row: NewAttempt) -> None:
    """Let a core run a contained job for some steps, then kill the core alone."""
    home = paths.data.parent
    (home / "attempt.json").write_bytes(encode(row))
    command = [sys.executable, str(CORE), str(home), behaviour, "contained"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as core:
        assert core.stdout is not None
        for line in core.stdout:
            if line.startswith("step"):
                break
        os.kill(core.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("behaviour", "kill_sandbox", "forced", "saved"),
    [("obey", False, False, True), ("ignore-orders", False, True, False), ("ignore-orders", True, True, False)],
    ids=["leaves", "stays", "stays when the sandbox's outer process is killed"],
)
async def test_what_becomes_of_a_contained_job_whose_core_is_gone(
    paths: Paths,
    attempt: Callable[..., NewAttempt],
    behaviour: str,
    kill_sandbox: bool,
    forced: bool,
    saved: bool,
) -> None:
    row = attempt(limits=msgspec.structs.replace(attempt().accepted.limits, stop_grace_s=2))
    try:
        run_and_kill_core(paths, behaviour, row)
        journal = Journal.open(paths.state_db, boot_id=boot_id())
        found: Any = await journal.attempt(row.attempt_id)
        if kill_sandbox:
            os.kill(found.pid, signal.SIGKILL)
        end = await recover_attempt(found, paths=paths, journal=journal, grace_s=20 if saved else 0.5)
        after: Any = await journal.attempt(row.attempt_id)
        await journal.close()
        assert (end.how, end.forced) == ("interrupted", forced)
        assert (after.checkpoint is not None) is saved
        assert find_tree(None, row.attempt_id) == []
    finally:
        end_tree(None, row.attempt_id, limit_s=10)
