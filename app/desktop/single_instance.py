"""One desktop per home: a lock decides, a local socket lets a second start raise the first."""

import logging
import sys
import tempfile
import time
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, QTimer, Signal, Slot
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from worker_core.machine.paths import Paths

RAISE = b"raise\n"
RAISED = b"ok\n"
MAX_REQUEST_BYTES = 64
REQUEST_TIMEOUT_MS = 2000
ANSWER_TIMEOUT_MS = 2000

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
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)
        # Only the holder of the lock may take the name: listen() would take it from a live owner without a word.
        QLocalServer.removeServer(self._name)
        if not self._server.listen(self._name):
            log.warning("A second start cannot raise this one: %s", self._server.errorString())

    def close(self) -> None:
        """Give lock and name back."""
        self._server.close()
        self._lock.unlock()

    def _meet_other(self, wants_window: bool) -> None:
        """Raise the other desktop; take over from one that is gone although its lock seems alive."""
        pid = self._lock.getLockInfo()[0]
        deadline = time.monotonic() + ANSWER_TIMEOUT_MS / 1000
        while True:
            answer = _ask_to_raise(self._name, RAISE if wants_window else b"\n")
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

    @Slot()
    def _on_connection(self) -> None:
        while self._server.hasPendingConnections():
            socket = self._server.nextPendingConnection()
            socket.setParent(self)
            socket.setReadBufferSize(MAX_REQUEST_BYTES)
            socket.readyRead.connect(self._on_request)
            socket.disconnected.connect(socket.deleteLater)
            QTimer.singleShot(REQUEST_TIMEOUT_MS, socket, socket.abort)

    @Slot()
    def _on_request(self) -> None:
        socket = self.sender()
        if not isinstance(socket, QLocalSocket) or not socket.canReadLine():
            return
        wanted = socket.readLine(MAX_REQUEST_BYTES).data() == RAISE
        socket.write(RAISED)
        socket.flush()
        socket.disconnectFromServer()
        if wanted:
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


def _ask_to_raise(name: str, request: bytes) -> bool | None:
    """Return whether the other answered; None when nobody listens."""
    socket = QLocalSocket()
    socket.connectToServer(name)
    if not socket.waitForConnected(500):
        return None
    socket.write(request)
    socket.waitForBytesWritten(500)
    deadline = time.monotonic() + ANSWER_TIMEOUT_MS / 1000
    while not socket.canReadLine() and time.monotonic() < deadline:
        if not socket.waitForReadyRead(200) and socket.state() is not QLocalSocket.LocalSocketState.ConnectedState:
            break
    answered = socket.readAll().data() == RAISED
    socket.abort()
    return answered
