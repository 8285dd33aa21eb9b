"""Since when nobody has used this machine: keyboard and mouse of its desktop, and terminals from afar."""

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Idle:
    """``seconds`` is None where nothing tells; ``source`` is what told."""

    seconds: float | None = None
    source: str = ""


Reader = tuple[str, Callable[[], float | None]]
"""A name, and what returns seconds, or None where this way does not exist here."""


class IdleClock:
    """Asks the ways of this system in turn, and stays with the one that answers."""

    def __init__(self, readers: Sequence[Reader] | None = None) -> None:
        self._readers = tuple(readers) if readers is not None else _readers()
        self._told: str | None = None

    def read(self) -> Idle:
        """Return the shortest idleness of desktop and remote terminals; may wait for a desktop that is slow."""
        found = self._of_desktop()
        if found.source != self._told:
            self._told = found.source
            log.info("idleness is told by %s", found.source or "nothing here: rules about it are off")
        remote_s = _remote_terminals()
        if found.seconds is None or remote_s is None:
            return found
        return Idle(min(found.seconds, remote_s), found.source)

    def _of_desktop(self) -> Idle:
        for name, read in self._readers:
            try:
                seconds = read()
            except Exception as error:  # a bus, a library or a display of which anything may be missing
                log.debug("%s does not tell how long nobody used this machine: %s", name, error)
                continue
            if seconds is not None:
                return Idle(max(0.0, seconds), name)
        return Idle()


def _readers() -> tuple[Reader, ...]:
    if sys.platform == "win32":
        from worker_core.machine.idle_windows import last_input_s

        return (("Windows", last_input_s),)
    if sys.platform == "darwin":
        from worker_core.machine.idle_macos import last_input_s

        return (("macOS", last_input_s),)
    from worker_core.machine.idle_linux import ScreenSaver, mutter_s, x11_s

    return (("GNOME", mutter_s), ("the screen saver service", ScreenSaver()), ("X11", x11_s))


def _remote_terminals() -> float | None:
    """Return how long ago somebody typed in a terminal session from another machine; None without one."""
    if sys.platform == "win32":
        return None
    import psutil

    now, ages = time.time(), list[float]()
    for user in psutil.users():
        if not user.terminal or not user.host or user.host in ("localhost", ":0", ":1"):
            continue
        try:
            ages.append(now - os.stat(f"/dev/{user.terminal}").st_atime)
        except OSError:
            continue
    return max(0.0, min(ages)) if ages else None
