"""A job's processes: how the first one is known again, and how the whole tree is ended.

A process belongs to a job when it descends from the job's first process, shares its session, carries the job's mark in
its environment, or was adopted by the core; so a child in a session of its own, whose parent has died, is still found.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from worker_core.machine.adoption import adopted

MARK = "STOKER_ATTEMPT"
_STEP_S = 0.02
_START_TOLERANCE_S = 0.02


@dataclass(frozen=True)
class ProcessIdentity:
    """A process and when it started, which tells it from a later one with the same number."""

    pid: int
    started: float


@dataclass(frozen=True)
class TreeEnd:
    """How many processes were killed, and which could not be ended."""

    killed: int
    left: tuple[int, ...]


def identify(pid: int) -> ProcessIdentity:
    """Return the identity of a running process; one that has ended already gets no start time."""
    started = _started(pid)
    return ProcessIdentity(pid, -1.0 if started is None else started)


def is_running(identity: ProcessIdentity) -> bool:
    """Tell whether this very process still runs; a zombie does not."""
    started = _started(identity.pid)
    return started is not None and abs(started - identity.started) <= _START_TOLERANCE_S


def end_tree(
    identity: ProcessIdentity | None, attempt_id: str, *, limit_s: float, inner: ProcessIdentity | None = None
) -> TreeEnd:
    """Kill everything that belongs to a job and wait until nothing is left, for ``limit_s`` at most.

    This blocks: call it in a thread. Again and again, because a tree may grow while it is felled. ``inner`` is the
    first process in a namespace of its own: the kernel ends all others with it. It is ours and not counted.
    """
    seen: set[int] = set()
    own = {inner.pid} if inner else set[int]()
    deadline = time.monotonic() + limit_s
    while True:
        members = sorted(find_tree(identity, attempt_id), key=lambda process: process.pid not in own)
        if not members or time.monotonic() > deadline:
            return TreeEnd(len(seen - own), tuple(process.pid for process in members))
        for process in members:
            seen.add(process.pid)
            _kill(process)
        time.sleep(_STEP_S)


def kill_at_once(identity: ProcessIdentity) -> None:
    """Kill one process without looking for others; nothing happens when it has ended."""
    if is_running(identity):
        try:
            _kill(psutil.Process(identity.pid))
        except psutil.NoSuchProcess:
            return


def find_tree(identity: ProcessIdentity | None, attempt_id: str) -> list[psutil.Process]:
    """Return the live processes of a job."""
    root = identity.pid if identity and is_running(identity) else None
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    candidates = [process for process in psutil.process_iter() if process.pid not in spared]
    children = _children(candidates)
    members = _descendants(root, children) if root else set[int]()
    session = identity.pid if identity and not _is_taken(identity) else None
    for pid in _adopted_since(identity):
        members |= _descendants(pid, children)
    for process in candidates:
        if process.pid not in members and (_in_session(process.pid, session) or _carries_mark(process, attempt_id)):
            members |= _descendants(process.pid, children)
    return [process for process in candidates if process.pid in members and _is_alive(process)]


def _is_taken(identity: ProcessIdentity) -> bool:
    """Tell whether another process has this number by now, so that a session of this number is its, not the job's."""
    return _started(identity.pid) is not None and not is_running(identity)


def _children(processes: Iterable[psutil.Process]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for process in processes:
        try:
            children.setdefault(process.ppid(), []).append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return children


def _descendants(root: int, children: dict[int, list[int]]) -> set[int]:
    found, ahead = set[int](), [root]
    while ahead:
        pid = ahead.pop()
        if pid not in found:
            found.add(pid)
            ahead += children.get(pid, [])
    return found


def _in_session(pid: int, session: int | None) -> bool:
    if sys.platform == "win32" or session is None:
        return False
    try:
        return os.getsid(pid) == session
    except OSError:
        return False


def _carries_mark(process: psutil.Process, attempt_id: str) -> bool:
    try:
        return process.environ().get(MARK) == attempt_id
    except (psutil.Error, OSError):
        return False


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _adopted_since(identity: ProcessIdentity | None) -> list[int]:
    """Return what the core adopted since the job began: nothing else that it starts leaves orphans."""
    if identity is None:
        return []
    return [pid for pid in adopted() if (_started(pid) or -1.0) >= identity.started >= 0]


def _kill(process: psutil.Process) -> None:
    try:
        if sys.platform == "linux":
            _kill_by_descriptor(process)
        else:
            process.kill()
    except (psutil.Error, OSError):
        return  # it has ended, or resists: the next look tells


def _kill_by_descriptor(process: psutil.Process) -> None:
    """Kill this very process: its number may be another's by now, its descriptor never."""
    descriptor = os.pidfd_open(process.pid)
    try:
        if process.is_running():
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def _started(pid: int) -> float | None:
    """Return when a live process started: on Linux since the boot, because the clock may be set meanwhile."""
    if sys.platform != "linux":
        return _started_by_clock(pid)
    try:
        # The name, in brackets, may hold anything; state and start time are fields 3 and 22.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _started_by_clock(pid: int) -> float | None:
    try:
        process = psutil.Process(pid)
        return process.create_time() if process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None
