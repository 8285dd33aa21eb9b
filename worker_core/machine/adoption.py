"""Children that are not ours by birth: on Linux the core adopts what its jobs leave behind, and buries it.

A process whose parent has ended goes to the nearest ancestor that asked for it. Without that a job's process that
forked twice, with a session and an environment of its own, would belong to process 1 and could not be told from others.
"""

import logging
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

log = logging.getLogger(__name__)

_PR_SET_CHILD_SUBREAPER = 36
_ours: "weakref.WeakSet[subprocess.Popen[bytes]]" = weakref.WeakSet()
_adopting = threading.Event()
birth = threading.Lock()
"""Held while a child of ours is made and written down, so that it is never taken for an adopted one."""


def register(process: "subprocess.Popen[bytes]") -> None:
    """Note a child of our own; call it while holding :data:`birth`."""
    _ours.add(process)


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent ends; False where the system knows no such thing."""
    if sys.platform != "linux":
        return False
    import ctypes  # slow to load, and the desktop needs this module without it

    done = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    if done:
        _adopting.set()
    else:
        log.warning("orphans of jobs go to process 1: %s", os.strerror(ctypes.get_errno()))
    return done


def adopted() -> list[int]:
    """Return the living children that we did not start ourselves; those that have ended are buried."""
    if sys.platform == "win32" or not _adopting.is_set():
        return []
    with birth:
        ours, session = {process.pid for process in _ours if process.returncode is None}, os.getsid(0)
        # A job has a session of its own; what some library of ours starts for a moment shares ours.
        strangers = [pid for pid in _children() - ours if _session(pid) != session]
        return [pid for pid in strangers if not _bury(pid)]


def _children() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        try:
            found.update(map(int, (thread / "children").read_text().split()))
        except OSError:
            continue  # the thread has ended
    return found


def _session(pid: int) -> int:
    try:
        return os.getsid(pid) if sys.platform != "win32" else 0
    except ProcessLookupError:
        return 0


def _bury(pid: int) -> bool:
    """Take the exit status of an ended child; True when there was one."""
    if sys.platform == "win32":
        return True
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
