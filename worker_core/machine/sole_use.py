"""One process per credential on this computer, so that a second copy of a home is noticed before it is started.

A home has a lock of its own; this one lies outside all homes, in the user's temporary folder, and is named by the
worker. It is a help and no border: where the folder cannot be used, the coordinator's rules stand alone.
"""

import hashlib
import logging
import os
import sys
import tempfile
from pathlib import Path

from worker_core.machine.instance_lock import InstanceLock, take_lock

log = logging.getLogger(__name__)


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
            self._lock = take_lock(self._path)
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


def _shared_folder() -> Path:
    user = os.getuid() if sys.platform != "win32" else 0
    return Path(tempfile.gettempdir()) / f"stoker-{user}-in-use"
