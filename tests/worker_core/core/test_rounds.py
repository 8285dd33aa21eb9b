"""What comes round by the clock: sleep, a date that was set, an authorization that runs out or is renewed."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from worker_core.core import rounds
from worker_core.core.rounds import Reading, Rounds
from worker_core.core.settings import Settings
from worker_core.machine.sources import SETTING

Move = Callable[..., None]


@pytest.fixture
def move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Move:
    """Move the clocks of the worker on the bench, through the documented setting."""
    script = tmp_path / "sources.json"
    script.write_text("{}")
    monkeypatch.setenv(SETTING, str(script))

    def write(**readings: float) -> None:
        script.write_text(json.dumps(readings))

    return write


def test_sleep_lag_and_a_date_that_was_set_are_told_apart() -> None:
    before = Reading(now=100.0, awake=50.0, wall=1000.0)
    slept = Reading(now=700.0, awake=51.0, wall=1600.0)
    assert (slept.slept_s(before), slept.lag_s(before), slept.clock_set_s(before)) == (599.0, 0.0, 0.0)
    lagged = Reading(now=111.0, awake=61.0, wall=1011.0)
    assert (lagged.slept_s(before), lagged.lag_s(before), lagged.clock_set_s(before)) == (0.0, 10.0, 0.0)
    dated = Reading(now=101.0, awake=51.0, wall=87401.0)
    assert (dated.slept_s(before), dated.lag_s(before), dated.clock_set_s(before)) == (0.0, 0.0, 86400.0)


async def test_after_sleep_dead_sockets_are_dropped_and_a_heartbeat_goes_out_at_once(move: Move, bench: Any) -> None:
    bench.coordinator.params = msgspec.structs.replace(bench.coordinator.params, poll_wait_s=20.0)
    await bench.start_paired()
    await bench.until(lambda: bench.coordinator.polls and bench.coordinator.heartbeats)
    polls, beats = len(bench.coordinator.polls), len(bench.coordinator.heartbeats)
    move(clock_offset_s=1800.0)
    await bench.until(lambda: len(bench.coordinator.heartbeats) > beats, timeout_s=24)
    await bench.until(lambda: len(bench.coordinator.polls) > polls, timeout_s=24)
    await bench.until_state("available")


async def test_a_date_set_by_a_month_changes_nothing(move: Move, bench: Any) -> None:
    await bench.start_paired()
    move(wall_offset_s=30 * 86400.0)
    attempt = bench.offer(steps=3)
    done = await bench.until(lambda: bench.coordinator.completions.get(attempt))
    assert done.outcome == "succeeded"


async def test_an_authorization_that_runs_out_here_stops_taking_work(move: Move, bench: Any) -> None:
    worker = await bench.start_paired()
    await bench.coordinator.stop()
    move(clock_offset_s=86400.0 + 60)
    await bench.until(lambda: worker.known.life.expired)
    assert worker.known.life.takes_work is False


async def test_an_extension_is_asked_for_in_the_last_third_and_only_where_allowed(bench: Any) -> None:
    bench.coordinator.extend = True
    worker = await bench.start_paired()
    rounds = Rounds(worker, bench.paths, Settings())
    await rounds.check_authorization()
    assert bench.coordinator.count("POST", "/v1/authorization/extend") == 0
    bench.coordinator.remaining_s = 86400.0 / 4
    worker.known.note_authorization(msgspec.structs.replace(worker.known.authorization, remaining_s=86400.0 / 4))
    await rounds.check_authorization()
    assert bench.coordinator.count("POST", "/v1/authorization/extend") == 1
    assert worker.known.remaining_s() > 86000
    bench.coordinator.extend = False
    worker.known.note_authorization(bench.coordinator.authorization)
    worker.known.note_authorization(msgspec.structs.replace(bench.coordinator.authorization, remaining_s=1.0))
    await rounds.check_authorization()
    assert bench.coordinator.count("POST", "/v1/authorization/extend") == 1


async def test_polls_that_never_get_through_are_told_though_heartbeats_pass(move: Move, bench: Any) -> None:
    from scripted_coordinator import Answer  # pyright: ignore[reportMissingImports]

    bench.coordinator.script("POST", "/v1/poll", *[Answer(raw=b"")] * 1000)
    worker = await bench.start_paired()
    beats = len(bench.coordinator.heartbeats)
    await bench.until(lambda: "not-polling" in worker.status().reasons)
    await bench.until(lambda: "not-polling" in bench.coordinator.heartbeats[-1].reasons)
    assert len(bench.coordinator.heartbeats) > beats
    bench.coordinator._rules.clear()
    began = time.monotonic()
    attempt = bench.offer(steps=3)
    await bench.until(lambda: attempt in bench.coordinator.accepted)
    assert time.monotonic() - began < 0.5 + 5.0 + 2.0, "one poll, the wait between polls, and the answer"
    await bench.until(lambda: "not-polling" not in worker.status().reasons)


async def test_a_full_disk_declines_in_words_and_recovers_by_itself(move: Move, bench: Any) -> None:
    move(disk_free_bytes=1 << 20, disk_total_bytes=1 << 40)
    worker = await bench.start_paired()
    await bench.until(lambda: bench.coordinator.polls)
    assert bench.coordinator.polls[-1].free_slots == 0
    assert worker.known.machine.obstacle()[0] == "disk-full"
    move(disk_free_bytes=1 << 39, disk_total_bytes=1 << 40)
    worker.known.machine.refresh()
    attempt = bench.offer(steps=3)
    await bench.until(lambda: attempt in bench.coordinator.completions)


async def test_a_gpu_driver_that_hangs_takes_no_job_and_is_told(
    move: Move, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_REFRESH_IDLE_S", 0.1)
    move(gpus_silent=True)
    worker = await bench.start_paired()
    await bench.until(lambda: bench.coordinator.polls)
    assert bench.coordinator.polls[-1].free_slots == 0
    await bench.until(lambda: "gpu-silent" in worker.status().reasons)
    move()
    attempt = bench.offer(steps=3)
    await bench.until(lambda: attempt in bench.coordinator.completions)


async def test_a_driver_that_does_not_answer_holds_up_no_heartbeat(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_REFRESH_IDLE_S", 0.1)
    worker = await bench.start_paired()
    asked, go_on, answered = threading.Event(), threading.Event(), threading.Event()

    def never_answer() -> None:
        asked.set()
        go_on.wait(10)
        answered.set()

    monkeypatch.setattr(worker.known.machine, "refresh", never_answer)
    try:
        await bench.until(asked.is_set)
        beats = len(bench.coordinator.heartbeats)
        worker.known.contact.report()
        await bench.until(lambda: len(bench.coordinator.heartbeats) > beats, timeout_s=15)
        assert not answered.is_set()
    finally:
        go_on.set()
