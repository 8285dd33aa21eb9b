"""A line of bytes to another process of this machine, driven by Qt's event loop.

It is a plain socket with notifiers: Qt's own sockets would cost a program that rests for weeks 3 MiB.
"""

import socket

from PySide6.QtCore import QObject, QSocketNotifier, QTimer, Signal, Slot

MOST_UNSENT_BYTES = 1 << 20
"""What may wait for the other end; one that takes less than this is not listening."""
_READ_BYTES = 64 * 1024
_UNDER_WAY = (BlockingIOError, InterruptedError)


class Line(QObject):
    """One connection; ``opened`` comes once, then ``received`` for what arrives, and ``closed`` when it is over.

    After ``abort`` no signal comes any more.
    """

    opened = Signal()
    received = Signal(bytes)
    closed = Signal()

    def __init__(self, parent: QObject, connection: socket.socket) -> None:
        """Take over a connection, or a socket that is to become one by :meth:`connect_to`."""
        super().__init__(parent)
        connection.setblocking(False)
        self._socket = connection
        self._unsent = bytearray()
        self._connecting = False
        kinds = QSocketNotifier.Type
        self._reads = self._notifier(kinds.Read)
        self._writes = self._notifier(kinds.Write)
        # Windows says by this one that nobody took the call.
        self._fails = self._notifier(kinds.Exception)
        self._reads.activated.connect(self._on_readable)
        self._writes.activated.connect(self._on_writable)
        self._fails.activated.connect(self._on_writable)

    @property
    def is_open(self) -> bool:
        return not self._connecting and self._socket.fileno() >= 0

    def connect_to(self, address: str | tuple[str, int]) -> None:
        """Call the other end; ``opened`` or ``closed`` comes in a later turn of the event loop."""
        self._connecting = True
        try:
            self._socket.connect(address)
        except _UNDER_WAY:
            # A Unix socket whose queue of callers is full says the same, and is found out by the next write.
            self._writes.setEnabled(True)
            self._fails.setEnabled(True)
            return
        except OSError:
            QTimer.singleShot(0, self, self._on_refused)
            return
        QTimer.singleShot(0, self, self._on_writable)

    def start_reading(self) -> None:
        """Listen to a connection that was taken over."""
        self._reads.setEnabled(True)

    def write(self, data: bytes) -> None:
        """Send, as fast as the other end takes it."""
        if self._socket.fileno() < 0:
            return
        self._unsent += data
        if len(self._unsent) > MOST_UNSENT_BYTES:
            self._end()
        elif not self._connecting:
            self._send()

    def abort(self) -> None:
        """Close at once and say nothing more."""
        self.blockSignals(True)
        self._close()
        self.deleteLater()

    def _notifier(self, kind: QSocketNotifier.Type) -> QSocketNotifier:
        notifier = QSocketNotifier(self._socket.fileno(), kind, self)
        notifier.setEnabled(False)
        return notifier

    @Slot()
    def _on_writable(self) -> None:
        if self._socket.fileno() < 0:
            return
        if self._connecting:
            if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0 or not self._has_peer():
                self._end()
                return
            self._connecting = False
            self._fails.setEnabled(False)
            self._reads.setEnabled(True)
            self.opened.emit()
        self._send()

    def _has_peer(self) -> bool:
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    @Slot()
    def _on_refused(self) -> None:
        self._end()

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except _UNDER_WAY:
            self._writes.setEnabled(True)
            return
        except OSError:
            self._end()
            return
        if self._socket.fileno() >= 0:
            self._writes.setEnabled(False)

    @Slot()
    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except _UNDER_WAY:
            return
        except OSError:
            data = b""
        if data:
            self.received.emit(data)
        else:
            self._end()

    def _end(self) -> None:
        if self._socket.fileno() >= 0:
            self._close()
            self.closed.emit()

    def _close(self) -> None:
        for notifier in (self._reads, self._writes, self._fails):
            notifier.setEnabled(False)
        self._socket.close()
