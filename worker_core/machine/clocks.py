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
    """The clocks of this machine."""

    def now(self) -> float:
        # time.monotonic stops during sleep on Linux and macOS, but not on Windows.
        if sys.platform == "linux":
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        if sys.platform == "darwin":
            return time.clock_gettime(time.CLOCK_MONOTONIC)
        return time.monotonic()

    def awake(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()
