"""Which clock of which system counts sleep: ages go on during it, working time does not."""

import sys
import time
from types import SimpleNamespace

import pytest

from worker_core.machine import clocks
from worker_core.machine.clocks import SystemClock


@pytest.mark.parametrize(
    ("system", "now", "awake"),
    [
        ("linux", "boottime", "monotonic"),
        ("darwin", "monotonic of the system", "monotonic"),
        ("win32", "monotonic", "unbiased"),
    ],
)
def test_ages_count_sleep_and_working_time_does_not(
    system: str, now: str, awake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = {"boottime": 1.0, "monotonic of the system": 2.0, "monotonic": 3.0, "unbiased": 4.0}
    scripted = SimpleNamespace(
        CLOCK_BOOTTIME="boottime",
        CLOCK_MONOTONIC="monotonic of the system",
        clock_gettime=lambda clock: readings[clock],
        monotonic=lambda: readings["monotonic"],
    )
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(clocks, "time", scripted)
    monkeypatch.setattr(clocks, "_unbiased_interrupt_s", lambda: readings["unbiased"])
    clock = SystemClock()
    assert (clock.now(), clock.awake()) == (readings[now], readings[awake])


def test_both_clocks_run_at_the_speed_of_time() -> None:
    clock = SystemClock()
    before = clock.now(), clock.awake(), time.perf_counter()
    time.sleep(0.05)
    passed = time.perf_counter() - before[2]
    assert clock.now() - before[0] == pytest.approx(passed, abs=0.5)
    assert clock.awake() - before[1] == pytest.approx(passed, abs=0.5)
