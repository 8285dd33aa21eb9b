"""One desktop per home: a lock decides, a local socket lets a second start raise the first."""

import logging
import sys
import tempfile
import time
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Signal, Slot

from worker_core.machine.paths import Paths

if sys.platform == "win32":
    from app.desktop.doorbell_windows import Doorbell, ring
else:
    from app.desktop.doorbell_posix import Doorbell, ring

RAISE, PASS = b"raise\n", b"\n"
MEET_S = 2.0

log = logging.getLogger(__name__)


class AlreadyRunning(Exception):
    """Another desktop has this home. ``raised`` tells whether it answered and showed its window."""

    def __init__(self, pid: int, raised: bool) -> None:
        super().__init__(pid, raised)
        self.pid = pid
        self.raised = raised


class SingleInstance(QObject):
    """Holds the lock for life and listens for later starts."""

    raise_asked = Signal()

    def __init__(self, parent: QObject, paths: Paths, *, wants_window: bool) -> None:
        """Take the lock; raises :class:`AlreadyRunning` after asking the other to show itself."""
        super().__init__(parent)
        self._lock = QLockFile(str(paths.data / "desktop.lock"))
        self._lock.setStaleLockTime(0)
        self._name = _socket_name(paths)
        if not self._lock.tryLock(100):
            self._meet_other(wants_window)
        # Only the holder of the lock may take the name: it would be taken from a live owner without a word.
        self._bell: Doorbell | None = None
        try:
            self._bell = Doorbell(self, self._name)
            self._bell.rung.connect(self._on_rung)
        except OSError as error:
            log.warning("A second start cannot raise this one: %s", error)

    def close(self) -> None:
        """Give lock and name back."""
        if self._bell is not None:
            self._bell.close()
        self._lock.unlock()

    def _meet_other(self, wants_window: bool) -> None:
        """Raise the other desktop; take over from one that is gone although its lock seems alive."""
        pid = self._lock.getLockInfo()[0]
        deadline = time.monotonic() + MEET_S
        while True:
            answer = ring(self._name, RAISE if wants_window else PASS)
            if answer is not None:
                raise AlreadyRunning(pid, raised=answer)
            if self._lock.tryLock(100):
                return
            if time.monotonic() > deadline:
                break
        # Nobody listens: a reused pid keeps a dead owner's lock looking alive.
        self._lock.removeStaleLockFile()
        if not self._lock.tryLock(100):
            raise AlreadyRunning(pid, raised=False)

    @Slot(bytes)
    def _on_rung(self, request: bytes) -> None:
        if request == RAISE:
            self.raise_asked.emit()


def _socket_name(paths: Paths) -> str:
    """Return a name that other homes and, on POSIX, other users do not share."""
    if sys.platform == "win32":
        return f"stoker-desktop-{paths.identity}"
    folder = paths.control_socket.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    in_home = folder / "desktop.sock"
    return str(
        in_home if len(str(in_home).encode()) < 100 else Path(tempfile.gettempdir()) / f"stoker-{paths.identity}"
    )
