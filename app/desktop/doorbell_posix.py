"""How a second start reaches the first, on Linux and macOS: a Unix socket that only its owner can open."""

import contextlib
import os
import socket
import time

from PySide6.QtCore import QObject, QSocketNotifier, QTimer, Signal, Slot

from app.desktop.control.line import Line

ANSWER = b"ok\n"
_MOST_BYTES = 64
_MOST_CALLERS = 8
_CALL_MS = 2000
_CONNECT_S, _ANSWER_S = 0.5, 2.0


class Doorbell(QObject):
    """Listens under a name for whoever starts later."""

    rung = Signal(bytes)
    """The line a caller sent."""

    def __init__(self, parent: QObject, name: str) -> None:
        """Listen; raises OSError. A name that an ended owner left is taken: only the holder of the lock comes here."""
        super().__init__(parent)
        self._name = name
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        before = os.umask(0o177)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            self._listener.bind(name)
            self._listener.listen(_MOST_CALLERS)
        except OSError:
            self._listener.close()
            raise
        finally:
            os.umask(before)
        self._notifier = QSocketNotifier(self._listener.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_caller)

    def close(self) -> None:
        """Take the name away."""
        if self._listener.fileno() < 0:
            return
        self._notifier.setEnabled(False)
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._name)

    @Slot()
    def _on_caller(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # gone again
        if len(self.findChildren(_Caller)) >= _MOST_CALLERS:
            connection.close()
            return
        _Caller(self, connection).asked.connect(self.rung)


class _Caller(QObject):
    """One start that rings: it says a line and gets its answer, within two seconds."""

    asked = Signal(bytes)

    def __init__(self, parent: QObject, connection: socket.socket) -> None:
        super().__init__(parent)
        self._heard = bytearray()
        self._line = Line(self, connection)
        self._line.received.connect(self._on_bytes)
        self._line.closed.connect(self._on_over)
        self._line.start_reading()
        QTimer.singleShot(_CALL_MS, self, self._on_over)

    @Slot(bytes)
    def _on_bytes(self, data: bytes) -> None:
        self._heard += data
        request, ended, _ = bytes(self._heard).partition(b"\n")
        if ended:
            self._line.write(ANSWER)
        if ended or len(self._heard) > _MOST_BYTES:
            self._on_over()
        if ended:
            self.asked.emit(request + ended)

    @Slot()
    def _on_over(self) -> None:
        self._line.abort()
        self.deleteLater()


def ring(name: str, request: bytes) -> bool | None:
    """Return whether the other start answered; None when nobody listens under this name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(_CONNECT_S)
        try:
            line.connect(name)
        except OSError:
            return None
        answer, give_up = b"", time.monotonic() + _ANSWER_S
        try:
            line.sendall(request)
            while not answer.endswith(b"\n") and (left := give_up - time.monotonic()) > 0:
                line.settimeout(left)
                received = line.recv(_MOST_BYTES)
                if not received:
                    break
                answer += received
        except OSError:
            return False
        return answer == ANSWER
