"""Watches whether this desktop has a place for tray icons, and tells when one came or stayed away too long."""

import time

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QSystemTrayIcon

POLL_MS = 1000
POLL_WHEN_FOUND_MS = 10_000
PATIENCE_S = 17.0
"""Leaves time to open the window: 20 s after the start nobody may be without icon and window."""


class TrayHost(QObject):
    """Polls for a host, because nothing announces one; a host that restarts later is Qt's business."""

    appeared = Signal()
    missing = Signal()
    """No host for ``patience_s``; said once for each time it is missing."""

    def __init__(self, parent: QObject, patience_s: float = PATIENCE_S) -> None:
        super().__init__(parent)
        self._patience_s = patience_s
        self._missing_since: float | None = None
        """None while a host is there, and after its absence was told."""
        self._present = False
        self._timer = QTimer(self, interval=POLL_MS)
        self._timer.setTimerType(Qt.TimerType.VeryCoarseTimer)
        self._timer.timeout.connect(self._poll)

    @property
    def present(self) -> bool:
        return self._present

    def start(self) -> None:
        """Look now, then keep looking."""
        self._missing_since = time.monotonic()
        self._timer.start()
        self._poll()

    @Slot()
    def _poll(self) -> None:
        available = QSystemTrayIcon.isSystemTrayAvailable()
        if available and not self._present:
            self._missing_since = None
            self._timer.start(POLL_WHEN_FOUND_MS)
            self._present = True
            self.appeared.emit()
        elif not available:
            if self._present:
                self._present = False
                self._missing_since = time.monotonic()
                self._timer.start(POLL_MS)
            self._tell_when_late()

    def _tell_when_late(self) -> None:
        if self._missing_since is not None and time.monotonic() - self._missing_since >= self._patience_s:
            self._missing_since = None
            self.missing.emit()
