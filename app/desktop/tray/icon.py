"""The icon in the tray: made when a host is there, given the worker's picture, tooltip and menu."""

import sys
import time

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from app.desktop.presenter.dwell import Dwell
from app.desktop.presenter.status import IconKey, Shown
from app.desktop.tray.icons import panel_ground, state_icon

_OPENING = {
    QSystemTrayIcon.ActivationReason.Trigger,
    QSystemTrayIcon.ActivationReason.DoubleClick,
    QSystemTrayIcon.ActivationReason.MiddleClick,
}
if sys.platform == "darwin":
    _OPENING.remove(QSystemTrayIcon.ActivationReason.Trigger)  # the same click opens the menu there


class TrayIcon(QObject):
    """Holds the QSystemTrayIcon. An icon made before its host would stay invisible, so it is made on demand."""

    opened = Signal()
    """A person clicked the icon itself, not for its menu."""

    def __init__(self, parent: QObject, menu: QMenu) -> None:
        super().__init__(parent)
        self._menu = menu
        self._icon: QSystemTrayIcon | None = None
        self._wanted = Shown(icon="dotted", headline="Starting")
        self._dwell = Dwell()
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._refresh)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._repaint)

    @property
    def icon(self) -> QSystemTrayIcon | None:
        """The icon that is registered now."""
        return self._icon

    @Slot()
    def create(self) -> None:
        """Make a new icon for the host that is there now."""
        self.close()
        self._icon = QSystemTrayIcon(self)
        self._icon.setContextMenu(self._menu)
        self._icon.activated.connect(self._on_activated)
        self._dwell = Dwell()
        self._refresh()
        self._icon.show()

    def show(self, shown: Shown) -> None:
        """Show this as soon as the picture before it has stood long enough."""
        self._wanted = shown
        if not self._timer.isActive():
            self._refresh()
        elif shown.icon == "problem":
            self._timer.stop()
            self._refresh()

    def close(self) -> None:
        """Take the icon away."""
        self._timer.stop()
        icon, self._icon = self._icon, None
        if icon is not None:
            icon.hide()
            icon.setContextMenu(None)  # pyright: ignore[reportArgumentType]
            icon.deleteLater()

    @Slot()
    def _refresh(self) -> None:
        if self._icon is None:
            return
        wait_s = self._dwell.wait_s(self._wanted.icon, time.monotonic())
        if wait_s > 0:
            self._timer.start(int(wait_s * 1000) + 1)
            return
        if self._dwell.show(self._wanted.icon, time.monotonic()):
            self._paint(self._wanted.icon)
        if self._icon.toolTip() != self._wanted.tooltip:
            self._icon.setToolTip(self._wanted.tooltip)

    @Slot()
    def _repaint(self) -> None:
        if self._dwell.shown is not None:
            self._paint(self._dwell.shown)

    def _paint(self, key: IconKey) -> None:
        if self._icon is not None:
            self._icon.setIcon(state_icon(key, panel_ground()))

    @Slot(QSystemTrayIcon.ActivationReason)
    def _on_activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason in _OPENING:
            self.opened.emit()
