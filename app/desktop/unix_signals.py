"""Ends the desktop at once on Ctrl-C, TERM and hang-up, although Qt does not wake up for signals by itself."""

import signal
import socket
import sys
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier, Qt, QTimer, Signal, Slot

POLL_MS = 500


class EndSignals(QObject):
    """Emits ``asked`` in Qt's event loop when the system asks this process to end."""

    asked = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._came = False
        self._before = {number: signal.signal(number, self._on_signal) for number in _end_signals()}
        if sys.platform == "win32":
            # Python runs its handlers only while Python code runs, and no descriptor wakes Qt here.
            timer = QTimer(self, interval=POLL_MS)
            timer.setTimerType(Qt.TimerType.VeryCoarseTimer)
            timer.timeout.connect(self._look)
            timer.start()
            return
        self._ours, self._theirs = socket.socketpair()
        for end in (self._ours, self._theirs):
            end.setblocking(False)
        signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        self._notifier = QSocketNotifier(self._ours.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_wake)

    def close(self) -> None:
        """Go back to the system's own handling."""
        for number, kept in self._before.items():
            signal.signal(number, kept)
        if sys.platform != "win32":
            signal.set_wakeup_fd(-1)
            self._notifier.setEnabled(False)
            self._ours.close()
            self._theirs.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._came = True

    @Slot()
    def _on_wake(self) -> None:
        self._ours.recv(64)
        self._look()

    @Slot()
    def _look(self) -> None:
        if self._came:
            self._came = False
            self.asked.emit()


def _end_signals() -> tuple[int, ...]:
    """Return what asks this process to end here; a hang-up that somebody had ignored (nohup) stays so."""
    hang_up: int | None = getattr(signal, "SIGHUP", None)
    if hang_up is None or signal.getsignal(hang_up) is signal.SIG_IGN:
        return (signal.SIGINT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, hang_up)
