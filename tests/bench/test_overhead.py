"""The overhead is told apart into what a decision costs and what a run costs once, with how sure that is."""

import os
import subprocess
import sys
import time

import pytest

from bench._cpu import Point, Sample, Watch, per_step
from bench.overhead import Cost, interval, summary


def test_what_is_done_once_does_not_count_per_step() -> None:
    # 2 s before the first step, then 0.1 s a step, then 5 s that belong to no step.
    points = [Point(10.0 + step, 10 * step) for step in range(101)]
    samples = [
        Sample(at, (2.0 + 10 * 0.1 * (at - 10.0), 0.5 * (at - 10.0))) for at in (10.0 + i / 2 for i in range(201))
    ]
    samples.append(Sample(111.0, (500.0, 50.0)))
    trainer, core = per_step(samples, points, 150, 950)
    assert trainer == pytest.approx(0.1)
    assert core == pytest.approx(0.05)


def test_a_run_too_short_to_have_a_middle_is_refused() -> None:
    with pytest.raises(ValueError, match="train longer"):
        per_step([Sample(1.0, (1.0,))], [Point(0.0, 0), Point(2.0, 100)], 10, 90)


def test_a_watch_reads_running_processes_until_they_end() -> None:
    with Watch([os.getpid()]) as watch:
        while len(watch.samples) < 2:
            time.sleep(0.01)
    assert watch.samples[0].seconds[0] < watch.samples[1].seconds[0]


def test_what_a_process_used_stays_when_it_ends() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "sum(range(3_000_000)); input()"], stdin=subprocess.PIPE) as short,
        Watch([os.getpid()], [short.pid]) as watch,
    ):
        while not watch.samples or watch.samples[-1].seconds[1] < 0.02:
            time.sleep(0.01)
        short.communicate(b"\n", timeout=60)
        known = len(watch.samples)
        while len(watch.samples) < known + 2:
            time.sleep(0.01)
    assert watch.samples[-1].seconds[1] >= 0.02


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, 1.0, 2.0], (1.0, 3.0, 0.75)),
        ([5.0, 1.0, 2.0, 3.0, 4.0], (1.0, 5.0, 0.9375)),
        ([6.0, 5.0, 1.0, 2.0, 3.0, 4.0], (1.0, 6.0, 0.96875)),
        ([float(value) for value in range(10)], (1.0, 8.0, 1 - 22 / 1024)),
    ],
)
def test_the_interval_is_the_narrowest_that_is_sure_enough(
    values: list[float], expected: tuple[float, float, float]
) -> None:
    assert interval(values) == pytest.approx(expected)


def test_the_overhead_is_the_median_of_the_pairs_and_its_parts_are_told() -> None:
    bare = Cost(per_decision_s=1e-4, core_per_decision_s=0.0, once_s=2.0)
    pairs = [
        (bare, Cost(per_decision_s=1e-4 * (1 + more), core_per_decision_s=5e-7, once_s=3.0))
        for more in (0.01, 0.05, 0.015)
    ]
    told = summary(pairs)
    assert (told["overhead_pct"], told["low_pct"], told["high_pct"]) == (1.5, 1.0, 5.0)
    assert (told["of_it_core_pct"], told["once_bare_s"], told["once_through_s"]) == (0.5, 2.0, 3.0)
