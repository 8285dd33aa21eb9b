"""The coordinator's data folder: private, and held by one server at a time."""

import os
import sys
from pathlib import Path
from typing import IO

from coordinator.errors import HostError

DATABASE_NAME = "coordinator.db"
_LOCK_NAME = "coordinator.lock"


class FolderInUse(HostError):
    """Another coordinator holds the data folder."""


class UnusableFolder(HostError):
    """The data folder cannot be made or written."""


class DataFolder:
    """A data folder under an exclusive lock, until :meth:`release` or the end of the process."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def hold(cls, path: Path) -> "DataFolder":
        """Make the folder if missing and take its lock; raises :class:`FolderInUse`, :class:`UnusableFolder`."""
        path = path.expanduser().absolute()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
            lock = open(path / _LOCK_NAME, "a+", encoding="utf-8", opener=_private)  # noqa: SIM115
        except OSError as error:
            raise UnusableFolder(f"cannot use the data folder {path}: {error.strerror or error}") from error
        if not _lock(lock):
            lock.seek(0)
            holder = lock.read().strip()
            lock.close()
            raise FolderInUse(
                f"another coordinator{f' (process {holder})' if holder else ''} uses {path}; "
                "stop it first, or give this one another folder with --data"
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        return cls(path, lock)

    @property
    def database(self) -> Path:
        return self.path / DATABASE_NAME

    def release(self) -> None:
        """Let another coordinator use the folder."""
        self._lock.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _lock(file: IO[str]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            # The lock stands far behind the text, because Windows keeps others from reading locked bytes.
            file.seek(1 << 30)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            file.seek(0)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
