"""How a worker is told to leave: step by step by hand, at once at a checkpoint by a machine."""

import asyncio
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_coordinator import refusal  # pyright: ignore[reportMissingImports]

from worker_core.core import departure
from worker_core.core.end_signals import Asked, EndSignals, Request, ask
from worker_core.machine.spawn import clean_environment, spawn

ORDER = ("drain", "checkpoint", "now")
CORE = Path(__file__).with_name("core_process.py")


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (["interrupt"], ["drain"]),
        (["interrupt"] * 4, ["drain", "checkpoint", "now", "now"]),
        (["end", "end"], ["checkpoint", "now"]),
        (["interrupt", "end"], ["drain", "checkpoint"]),
        (["interrupt", "interrupt", "end"], ["drain", "checkpoint", "checkpoint"]),
        (["end", "interrupt", "interrupt"], ["checkpoint", "checkpoint", "checkpoint"]),
    ],
)
def test_each_request_asks_for_what_it_should(requests: list[Request], expected: list[str]) -> None:
    asked, got = Asked(), list[str]()
    for request in requests:
        asked, how, _ = ask(asked, request, job=True)
        got.append(how)
    assert got == expected


@given(st.lists(st.sampled_from(["interrupt", "end"]), min_size=1, max_size=8), st.booleans())
def test_no_request_ever_takes_back_a_stricter_one_and_all_say_what_comes_next(
    requests: list[Request], job: bool
) -> None:
    asked, before = Asked(), 0
    for request in requests:
        asked, how, words = ask(asked, request, job)
        assert ORDER.index(how) >= before
        before = ORDER.index(how)
        assert ("again" in words or "second signal" in words) == (how != "now")


class Terminal:
    """A core in a terminal of its own, as a person would run it."""

    def __init__(self, home: Path) -> None:
        self.ours, theirs = pty.openpty()
        environment = clean_environment({"STOKER_HOME": str(home)}, own=True)
        command = [sys.executable, str(CORE), str(home)]
        self.core = spawn(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.shown = ""

    def until(self, text: str, timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not re.search(text, self.shown):
            assert time.monotonic() < deadline, f"{text!r} was not shown, but:\n{self.shown}"
            if select.select([self.ours], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.ours, 65536).decode()
                except OSError:  # Linux says so when the other end is closed
                    assert re.search(text, self.shown), self.shown
                    return

    def end(self) -> None:
        if self.core.poll() is None:
            self.core.kill()
        self.core.wait(20)
        if self.ours >= 0:
            os.close(self.ours)


@pytest.fixture
async def terminal(bench: Any) -> Any:
    """A paired core in a terminal, and the coordinator it belongs to."""
    await bench.start_paired()
    await bench.stop()
    made = Terminal(bench.paths.data.parent)
    yield made
    await asyncio.to_thread(made.end)


async def running(bench: Any, terminal: Any, **spec: Any) -> str:
    attempt = bench.offer(**spec)
    await bench.until(lambda: bench.coordinator.events[attempt], timeout_s=60)
    return attempt


async def test_the_first_ctrl_c_lets_the_job_finish_and_that_is_success(bench: Any, terminal: Any) -> None:
    attempt = await running(bench, terminal, steps=40, pause_s=0.02)
    terminal.core.send_signal(signal.SIGINT)
    await asyncio.to_thread(terminal.until, "once this job has finished.*Ctrl-C again: stop it at a checkpoint")
    code = await asyncio.to_thread(terminal.core.wait, 60)
    assert bench.coordinator.completions[attempt].outcome == "succeeded"
    assert code == 0
    assert bench.coordinator.polls[-1].free_slots == 0


async def test_the_second_stops_it_at_a_checkpoint_and_gives_it_back(bench: Any, terminal: Any) -> None:
    attempt = await running(bench, terminal, steps=10_000, pause_s=0.02)
    terminal.core.send_signal(signal.SIGINT)
    await asyncio.to_thread(terminal.until, "Ctrl-C again: stop it at a checkpoint")
    terminal.core.send_signal(signal.SIGINT)
    await asyncio.to_thread(terminal.until, "Ctrl-C again: end it now")
    assert await asyncio.to_thread(terminal.core.wait, 60) == 130
    assert bench.coordinator.releases[attempt].reason == "shutdown"
    assert attempt not in bench.coordinator.completions
    assert bench.processes_of(attempt) == []


async def test_the_third_ends_a_job_that_listens_to_nothing(bench: Any, terminal: Any) -> None:
    attempt = await running(bench, terminal, steps=10_000, pause_s=0.02, deaf=True)
    for words in ("stop it at a checkpoint", "end it now", "ending the job now"):
        terminal.core.send_signal(signal.SIGINT)
        await asyncio.to_thread(terminal.until, words)
    assert await asyncio.to_thread(terminal.core.wait, 60) == 130
    assert bench.processes_of(attempt) == []
    assert attempt not in bench.coordinator.completions


async def test_term_saves_gives_back_and_is_no_failure(bench: Any, terminal: Any) -> None:
    attempt = await running(bench, terminal, steps=10_000, pause_s=0.02)
    terminal.core.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(terminal.core.wait, 60) == 0
    assert bench.coordinator.releases[attempt].reason == "shutdown"
    assert attempt not in bench.coordinator.completions
    assert any(kind == "checkpoint" for kind in _kinds(bench, attempt))


async def test_a_second_term_kills(bench: Any, terminal: Any) -> None:
    attempt = await running(bench, terminal, steps=10_000, pause_s=0.02, deaf=True)
    terminal.core.send_signal(signal.SIGTERM)
    await asyncio.to_thread(terminal.until, "a second signal: end it now")
    began = time.monotonic()
    terminal.core.send_signal(signal.SIGTERM)
    await asyncio.to_thread(terminal.core.wait, 60)
    assert time.monotonic() - began < 15
    assert bench.processes_of(attempt) == []


async def test_a_closed_terminal_stops_the_job_at_a_checkpoint(bench: Any, terminal: Any) -> None:
    attempt = await running(bench, terminal, steps=10_000, pause_s=0.02)
    os.close(terminal.ours)
    terminal.ours = -1
    terminal.core.send_signal(signal.SIGHUP)
    await asyncio.to_thread(terminal.core.wait, 60)
    assert bench.coordinator.releases[attempt].reason == "shutdown"


async def test_one_job_that_is_stopped_from_outside_is_not_waited_for_as_if_it_had_finished(bench: Any) -> None:
    await bench.start_paired()
    await bench.stop()
    worker = await bench.start(once=True)
    attempt = bench.offer(steps=10_000, pause_s=0.02)
    await bench.until(lambda: bench.coordinator.events[attempt])
    worker.leave("checkpoint")
    await bench.until(worker.left.is_set)
    assert bench.coordinator.releases[attempt].reason == "shutdown"
    assert worker._departure._how == "checkpoint"


async def test_one_who_leaves_at_leisure_is_hurried_by_term(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await bench.start_paired()
    bench.coordinator.script("POST", ".*/complete", *[refusal("rate-limited", retry_after_s=0.5)] * 1000)
    attempt = bench.offer(steps=3)
    await bench.until(lambda: worker.known.life.slot == "free" and bench.coordinator.count("POST", ".*/complete"))
    worker.leave("drain")
    await asyncio.sleep(0.5)
    assert not worker.left.is_set()
    monkeypatch.setitem(departure._ONCE_HURRIED_S, "checkpoint", 0.5)
    worker.leave("checkpoint")
    await bench.until(worker.left.is_set, timeout_s=30)
    (row,) = await worker.journal.attempts()
    assert row.attempt_id == attempt, "what is not delivered waits for the next start"


def test_a_hang_up_that_somebody_had_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def look() -> None:
        with EndSignals(None).listening():  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)

    try:
        asyncio.run(look())
    finally:
        signal.signal(signal.SIGHUP, before)


def _kinds(bench: Any, attempt: str) -> Iterator[str]:
    for request, _ in bench.coordinator.uploads.values():
        yield request.kind


async def test_a_machine_that_goes_down_does_not_wait_for_a_coordinator_that_is_gone(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departure, "_GIVE_UP_SILENT_S", 1.0)
    await bench.start_paired()
    attempt = bench.offer(steps=10_000, pause_s=0.02)
    await bench.until(lambda: len(bench.coordinator.events[attempt]) > 5, timeout_s=30)
    await bench.coordinator.stop()
    started = time.monotonic()
    await bench.stop("checkpoint")
    assert time.monotonic() - started < 30  # instead of the minute that deliveries may take
