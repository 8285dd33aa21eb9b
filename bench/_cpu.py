"""Processor time of running processes over the steps they make, watched from outside."""

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

import psutil

EVERY_S = 0.25
_PROCESS_CLOCK = 2
"""CPUCLOCK_SCHED of Linux: what clock_getcpuclockid(3) puts into a clock's number for a whole process."""


class Sample(NamedTuple):
    """Processor seconds so far at one moment (``time.time``), of each group of processes."""

    at: float
    seconds: tuple[float, ...]


class Point(NamedTuple):
    """A moment (``time.time``) at which a training had made so many steps."""

    at: float
    step: int


class Watch:
    """Reads the processor time of groups of processes at short intervals; what one has used stays when it ends."""

    def __init__(self, *groups: Sequence[int]) -> None:
        self._groups = [dict.fromkeys(group, 0.0) for group in groups]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="processor times", daemon=True)
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            for group in self._groups:
                for pid in group:
                    with suppress(OSError, psutil.Error):
                        group[pid] = processor_s(pid)
            self.samples.append(Sample(time.time(), tuple(sum(group.values()) for group in self._groups)))


def processor_s(pid: int) -> float:
    """Return the processor seconds of a process, its threads included and its children not; raises when it is gone."""
    if sys.platform == "linux":
        return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)  # to the nanosecond, where /proc counts hundredths
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def per_step(samples: Sequence[Sample], points: Sequence[Point], first: float, last: float) -> tuple[float, ...]:
    """Return each group's processor seconds per step between the steps ``first`` and ``last``.

    Only the middle of a run is looked at, so what is done once, at its start and its end, counts nothing.
    Raises ValueError when fewer than two samples lie there.
    """
    inside = [(step, sample) for sample in samples if first <= (step := _step_at(points, sample.at)) <= last]
    if len(inside) < 2 or inside[0][0] == inside[-1][0]:
        raise ValueError(f"only {len(inside)} samples lie between the steps {first:,.0f} and {last:,.0f}: train longer")
    (step, before), (later_step, after) = inside[0], inside[-1]
    pairs = zip(before.seconds, after.seconds, strict=True)
    return tuple((end - begin) / (later_step - step) for begin, end in pairs)


def _step_at(points: Sequence[Point], at: float) -> float:
    """Return the step at a moment, between two points in proportion, and outside of them one that is in no window."""
    for before, after in pairwise(points):
        if before.at <= at < after.at:
            return before.step + (after.step - before.step) * (at - before.at) / (after.at - before.at)
    return float("inf")
