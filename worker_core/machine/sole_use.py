"""One process per credential on this computer, so that a second copy of a home is noticed before it is started.

A home has a lock of its own; this one lies outside all homes, in the user's temporary folder, and is named by the
worker. It is a help and no border: where the folder cannot be used, the coordinator's rules stand alone.
"""

import hashlib
import logging
import os
import stat
import sys
import tempfile
from pathlib import Path

from worker_core.machine.instance_lock import InstanceLock, take_lock

log = logging.getLogger(__name__)

_TRIES = 5


class SoleUse:
    """The use of one worker's credential by this process."""

    def __init__(self, worker_id: str, folder: Path | None = None) -> None:
        name = hashlib.sha256(worker_id.encode()).hexdigest()[:16]
        self._path = (folder or _shared_folder()) / f"worker-{name}.lock"
        self._lock: InstanceLock | None = None

    def take(self) -> None:
        """Begin; raises LockHeld while another process of this computer uses the credential."""
        if self._lock is not None:
            return
        try:
            _refuse_a_foreign_folder(self._path.parent)
            self._lock = _take_named(self._path)
        except OSError as error:
            log.info("whether another worker here uses the same key cannot be told: %s", error)

    def release(self) -> None:
        """End."""
        if self._lock is None:
            return
        if sys.platform != "win32":
            self._path.unlink(missing_ok=True)
        self._lock.release()
        self._lock = None


def _take_named(path: Path) -> InstanceLock:
    """Take the lock of the file that bears this name now.

    One that releases removes the file first. Whoever had opened it just before would then hold a lock that nobody
    else can meet, and so looks again.
    """
    for _ in range(_TRIES):
        lock = take_lock(path)
        if lock.is_on(path):
            return lock
        lock.release()
    raise OSError(f"{path} is made anew all the time")


def _refuse_a_foreign_folder(folder: Path) -> None:
    """Raise PermissionError for a folder that another user, or a link, has put in the place of ours."""
    if sys.platform == "win32":
        return  # there the temporary folder is the user's own
    try:
        facts = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of this user: remove it")


def _shared_folder() -> Path:
    user = os.getuid() if sys.platform != "win32" else 0
    return Path(tempfile.gettempdir()) / f"stoker-{user}-in-use"
