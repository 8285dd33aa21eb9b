"""Notices from inside that a job stands still, and writes down where.

A step is whatever the job calls ``tick`` for. A job stands still when no step ends for ten times the usual step time,
and at least for as long as its spec says. The thread that looks is asleep until then and costs the job nothing; the
stacks of all threads go to the job's log. When some code holds the interpreter, so that this thread cannot run,
faulthandler's own timer writes the stacks, and the core, which hears nothing any more, raises the flag.
"""

import faulthandler
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Protocol

TIMES_MEDIAN = 10.0
_REMEMBERED, _LEAST_MEANS = 61, 3
"""Fewer could all be of one stall."""
_LOOK_S = 1.0
_OVERSLEPT_S = 5.0


class Pulse(Protocol):
    """What the job's main thread leaves behind with each step."""

    ticked_at: float
    """When the last step ended, by ``time.monotonic``; 0 before the first."""
    step: int


class StepTimes:
    """The usual time of a step: the median over about a minute of work."""

    def __init__(self) -> None:
        self._means: deque[float] = deque(maxlen=_REMEMBERED)

    def add(self, seconds: float, steps: int) -> None:
        """Note how long some steps took together."""
        if steps > 0:
            self._means.append(seconds / steps)

    def patience_s(self, least_s: float) -> float:
        """Return after how long without a step a job stands still."""
        usual = median(tuple(self._means)) if len(self._means) >= _LEAST_MEANS else 0.0
        return max(least_s, TIMES_MEDIAN * usual)


class StallWatch:
    """Looks at a pulse from a thread of its own."""

    def __init__(
        self,
        pulse: Pulse,
        times: StepTimes,
        least_s: float,
        *,
        is_excused: Callable[[], bool],
        on_stall: Callable[[int, float], None],
        on_recovery: Callable[[float], None],
    ) -> None:
        self._pulse = pulse
        self._times = times
        self._least_s = least_s
        self._is_excused = is_excused
        """Whether the job waits for somebody else just now, such as a core whose disk is full."""
        self._on_stall = on_stall
        self._on_recovery = on_recovery
        self._ended = threading.Event()
        self._excused_at = 0.0
        self._thread = threading.Thread(target=self._watch, name="stall watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        while not self._ended.is_set():
            patience_s = self._times.patience_s(self._least_s)
            left_s = patience_s - self._still_s()
            if left_s > 0:
                self._sleep(left_s, patience_s)
            elif self._is_excused():
                self._excused_at = time.monotonic()
            else:
                self._tell()

    def _sleep(self, seconds: float, patience_s: float) -> None:
        """Sleep until a stall could be due; if this thread then cannot run, the stacks are written without it."""
        began = time.monotonic()
        faulthandler.dump_traceback_later(seconds + patience_s, file=sys.stderr)
        self._ended.wait(seconds)
        faulthandler.cancel_dump_traceback_later()
        if time.monotonic() - began > seconds + _OVERSLEPT_S:
            # This whole process was stopped, or its computer slept: it stood still, but not by its own fault.
            self._excused_at = time.monotonic()

    def _still_s(self) -> float:
        """Return for how long no step has ended."""
        began = self._pulse.ticked_at
        return 0.0 if began == 0 else time.monotonic() - max(began, self._excused_at)

    def _tell(self) -> None:
        began = self._pulse.ticked_at
        self._on_stall(self._pulse.step, time.monotonic() - began)
        faulthandler.dump_traceback(file=sys.stderr)
        while self._pulse.ticked_at == began:
            if self._ended.wait(_LOOK_S):
                return
        self._on_recovery(time.monotonic() - began)
