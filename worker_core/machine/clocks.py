"""Time as the worker needs it: ages that count sleep, working time that does not, and the date for display."""

import sys
import time
from typing import Protocol


class Clock(Protocol):
    """Three readings in seconds; only differences of the first two mean anything."""

    def now(self) -> float:
        """Time that goes on while the machine sleeps: ages of leases and contacts."""
        ...

    def awake(self) -> float:
        """Time that stops while the machine sleeps: how long a job has been silent."""
        ...

    def wall(self) -> float:
        """Unix seconds, for display and time stamps only: anybody may set that clock."""
        ...


class SystemClock:
    """The clocks of this machine.

    ``time.monotonic`` stops during sleep on Linux (CLOCK_MONOTONIC) and macOS (mach_absolute_time), and goes on during
    it on Windows (GetTickCount64). On macOS clock_gettime's CLOCK_MONOTONIC is another clock, which goes on.
    """

    def now(self) -> float:
        if sys.platform == "linux":
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        if sys.platform == "darwin":
            return time.clock_gettime(time.CLOCK_MONOTONIC)
        return time.monotonic()

    def awake(self) -> float:
        return _unbiased_interrupt_s() if sys.platform == "win32" else time.monotonic()

    def wall(self) -> float:
        return time.time()


def _unbiased_interrupt_s() -> float:
    """Return Windows' time since its start without sleep; QueryUnbiasedInterruptTime counts in 100 ns."""
    import ctypes

    ticks = ctypes.c_ulonglong()
    ctypes.WinDLL("kernel32").QueryUnbiasedInterruptTime(ctypes.byref(ticks))  # type: ignore[attr-defined]
    return ticks.value / 1e7
