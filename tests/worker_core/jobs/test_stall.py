"""A job that lives but makes no step is noticed by the core, also when it cannot say so itself."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from worker_core.jobs import stall
from worker_core.jobs.stall import JOB_FIRST_S, HealthDesk, StallWatch
from worker_core.journal.records import NewAttempt
from worker_core.wire.events import Flag, Status
from worker_core.wire.failure_rules import RULES
from worker_core.wire.work import Limits

LIMITS = Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=5, silence_s=60)


def at(step: int, phase: str = "training", progress: float = 0.0) -> Status:
    return Status(ts=1.0, phase=phase, step=step, progress=progress)


def seconds_until_told(watch: StallWatch, most: int = 10_000) -> int | None:
    return next((second for second in range(1, most) if watch.tick(1.0)), None)


def test_a_job_is_told_once_to_stand_still_and_again_after_it_went_on() -> None:
    watch = StallWatch(120)
    watch.saw(at(5))
    assert seconds_until_told(watch) == 120 + JOB_FIRST_S + 1
    assert seconds_until_told(watch) is None
    watch.saw(at(6))
    assert seconds_until_told(watch) is not None


def test_a_job_whose_steps_take_long_gets_ten_times_as_long() -> None:
    watch = StallWatch(120)
    for step in range(1, 8):
        watch.saw(at(step))
        for _ in range(30):
            watch.tick(1.0)
    watch.excuse()
    assert watch.patience_s() == 300
    assert seconds_until_told(watch) == 300 + JOB_FIRST_S + 1


def test_messages_that_say_the_same_again_are_no_steps() -> None:
    watch = StallWatch(120)
    told = 0
    for _ in range(400):
        watch.saw(at(5, progress=0.99))
        told += watch.tick(1.0)
    assert told == 1


def test_a_benchmark_makes_its_steps_by_its_progress() -> None:
    watch = StallWatch(20)
    for second in range(200):
        watch.saw(at(0, "benchmark untrained", second / 200))
        assert not watch.tick(1.0)


def test_a_job_that_still_starts_is_left_to_the_watch_for_silence() -> None:
    watch = StallWatch(20)
    watch.saw(at(0, "starting"))
    assert seconds_until_told(watch) is None


def test_time_in_which_the_core_was_blocked_does_not_count() -> None:
    watch = StallWatch(120)
    watch.saw(at(5))
    assert not any(watch.tick(90.0) for _ in range(100))


def test_the_jobs_own_word_is_not_repeated_and_stops_it_only_if_the_spec_says_so() -> None:
    for action in ("warn", "stop"):
        desk = HealthDesk(msgspec.structs.replace(LIMITS, on_stall=action))
        desk.saw(at(5))
        flag = Flag(ts=1.0, step=5, flag="stall", text="no step", action=action)
        assert not desk.is_sign_of_life(flag)
        assert desk.take(flag) is (action == "stop")
        assert not any(desk.tick(1.0, 1.0, excused=False) for _ in range(400))
        assert [shown.text for shown in desk.flags] == ["no step"]


def test_what_the_job_handles_itself_is_only_shown() -> None:
    desk = HealthDesk(msgspec.structs.replace(LIMITS, on_stall="stop"))
    assert not desk.take(Flag(ts=1.0, step=5, flag="nan", text="the loss is nan", action="stop"))
    assert desk.flags[0].step == 5


@pytest.mark.parametrize("action", ["warn", "stop"])
async def test_a_mute_job_is_flagged_in_the_journal_and_stopped_where_asked(
    bench: Any, attempt: Callable[..., NewAttempt], monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(stall, "JOB_FIRST_S", 0.2)
    limits = msgspec.structs.replace(LIMITS, stall_s=1.0, on_stall=action, stop_grace_s=0.5)
    run = await bench.start("be-silent", attempt(limits=limits))
    task = asyncio.create_task(run.run())
    await bench.until(lambda: run.progress.flags)
    assert run.progress.flags[0].flag == "stall"
    if action == "warn":
        await asyncio.sleep(1)
        assert not task.done()
        run.kill()
    end = await task
    assert [event.action for event in await bench.events() if isinstance(event, Flag)] == [action]
    if action == "stop":
        assert end.error.failure == "stalled"
        assert RULES["stalled"].cure in await bench.lines("stoker")
