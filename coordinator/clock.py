"""The coordinator's time: seconds that never jump while it runs, and one scripted clock for tests.

Logic never follows the wall clock: a person or NTP may move it by days. The time is read once at start and carried on
by a clock that counts sleep as well.
"""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """Return unix seconds that only move forward, at the speed of time."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some moment, sleep included."""
        ...


class SystemClock:
    """The machine's time, read once and carried on by its suspend-aware clock."""

    def __init__(self) -> None:
        self._start = time.time() - _ticks()

    def now(self) -> float:
        return self._start + _ticks()

    def monotonic(self) -> float:
        return _ticks()


class ScriptedClock:
    """A clock that a file moves: ``{"offset_s": 3600}``, read again whenever the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = SystemClock()
        self._seen: tuple[int, int] | None = None
        self._offset_s = 0.0

    def now(self) -> float:
        return self._clock.now() + self._offset()

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._offset()

    def _offset(self) -> float:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return self._offset_s
        if (stat.st_mtime_ns, stat.st_size) != self._seen:
            # A file caught half-written is read again at the next call.
            try:
                self._offset_s = float(json.loads(self._path.read_text())["offset_s"])
            except (ValueError, KeyError, TypeError):
                return self._offset_s
            self._seen = (stat.st_mtime_ns, stat.st_size)
        return self._offset_s


def open_clock(script: str | None) -> Clock:
    """Return the system clock, or the scripted one when the settings name its file."""
    return ScriptedClock(Path(script)) if script else SystemClock()


def rfc3339(unix_s: float) -> str:
    """Return a moment for display: ``2026-11-30T16:40:00Z``."""
    moment = datetime.fromtimestamp(unix_s, UTC).replace(microsecond=0)
    return moment.isoformat().replace("+00:00", "Z")


def _ticks() -> float:
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        # time.monotonic stops while macOS sleeps, this one does not.
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()
