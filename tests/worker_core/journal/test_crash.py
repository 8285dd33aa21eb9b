"""Killed at any moment, the journal keeps every event it had acknowledged, once, and its metric history with it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from worker_core.journal.journal import Journal
from worker_core.journal.records import NewAttempt
from worker_core.wire.codec import encode
from worker_core.wire.events import Metric

APPENDER = Path(__file__).with_name("appender.py")


def kill_after(file: Path, attempt: NewAttempt, acknowledged: int) -> int:
    """Let a process append, kill it after so many acknowledgements, and return the last number it acknowledged."""
    command = [sys.executable, str(APPENDER), str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode(attempt))
        process.stdin.close()
        lines = [process.stdout.readline() for _ in range(acknowledged)]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.readlines()
    return max(int(line) for line in lines if line.endswith(b"\n"))


@pytest.mark.parametrize("acknowledged", [1, 4])
async def test_every_acknowledged_event_is_there_once_after_a_kill(
    file: Path, attempt: Callable[..., NewAttempt], acknowledged: int
) -> None:
    last = kill_after(file, attempt(), acknowledged)
    journal = Journal.open(file, boot_id="one")
    found = await journal.next_events("att_1", max_events=1_000_000, max_bytes=1 << 30)
    assert found is not None
    steps = [event.step for event in found.events if isinstance(event, Metric)]
    assert steps == list(range(len(steps)))
    assert len(steps) > last
    assert (await journal.history("att_1"))["loss"].count == len(steps)
    assert journal.next_seq("att_1") == len(steps)
    await journal.close()
