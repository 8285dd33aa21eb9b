"""The lock that makes one core per home: held by the operating system for as long as the process lives."""

import contextlib
import os
import sys
from pathlib import Path

from worker_core.machine.atomic_files import private_folder

# Windows locks a byte range against readers too, so the byte lies far behind the pid that others want to read.
_LOCKED_BYTE = 1 << 30


class LockHeld(Exception):
    """Another process holds the lock; ``pid`` says which one, if that could be read."""

    def __init__(self, path: Path, pid: int | None) -> None:
        by = f"process {pid}" if pid else "another process"
        super().__init__(f"{path} is held by {by}")
        self.pid = pid


class InstanceLock:
    """A lock that is held until :meth:`release`, or until the process ends in whatever way."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def is_on(self, path: Path) -> bool:
        """Tell whether the locked file still bears this name; on Windows it does, for an open file stays."""
        if sys.platform == "win32":
            return True
        try:
            return os.path.samestat(os.fstat(self._descriptor), path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def take_lock(path: Path) -> InstanceLock:
    """Take the lock at once or raise :class:`LockHeld`."""
    private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if not _try_lock(descriptor):
        os.close(descriptor)
        raise LockHeld(path, _read_pid(path))
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same, the pid is for messages only
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    return InstanceLock(descriptor)


def lock_holder(path: Path) -> int | None:
    """Return the pid of the process that holds the lock, 0 if it cannot be told, None if nobody holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        return None if _try_lock(descriptor) else _read_pid(path) or 0
    finally:
        os.close(descriptor)


def _read_pid(path: Path) -> int | None:
    text = path.read_bytes()[:20].strip()
    return int(text) if text.isdigit() else None


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
