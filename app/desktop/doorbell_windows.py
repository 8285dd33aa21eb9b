"""How a second start reaches the first, on Windows: a named pipe that only its owner can open."""

import time

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtNetwork import QLocalServer, QLocalSocket

ANSWER = b"ok\n"
_MOST_BYTES = 64
_CALL_MS = 2000
_ANSWER_S = 2.0


class Doorbell(QObject):
    """Listens under a name for whoever starts later."""

    rung = Signal(bytes)
    """The line a caller sent."""

    def __init__(self, parent: QObject, name: str) -> None:
        """Listen; raises OSError."""
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_connection)
        if not self._server.listen(name):
            raise OSError(self._server.errorString())

    def close(self) -> None:
        """Take the name away."""
        self._server.close()

    @Slot()
    def _on_connection(self) -> None:
        while self._server.hasPendingConnections():
            socket = self._server.nextPendingConnection()
            socket.setParent(self)
            socket.setReadBufferSize(_MOST_BYTES)
            socket.readyRead.connect(self._on_request)
            socket.disconnected.connect(socket.deleteLater)
            QTimer.singleShot(_CALL_MS, socket, socket.abort)

    @Slot()
    def _on_request(self) -> None:
        socket = self.sender()
        if not isinstance(socket, QLocalSocket) or not socket.canReadLine():
            return
        request = bytes(socket.readLine(_MOST_BYTES).data())
        socket.write(ANSWER)
        socket.flush()
        socket.disconnectFromServer()
        self.rung.emit(request)


def ring(name: str, request: bytes) -> bool | None:
    """Return whether the other start answered; None when nobody listens under this name."""
    socket = QLocalSocket()
    socket.connectToServer(name)
    if not socket.waitForConnected(500):
        return None
    socket.write(request)
    socket.waitForBytesWritten(500)
    deadline = time.monotonic() + _ANSWER_S
    while not socket.canReadLine() and time.monotonic() < deadline:
        if not socket.waitForReadyRead(200) and socket.state() is not QLocalSocket.LocalSocketState.ConnectedState:
            break
    answered = socket.readAll().data() == ANSWER
    socket.abort()
    return answered
