"""Notifications as Linux desktops have them, with buttons: org.freedesktop.Notifications on the session bus.

https://specifications.freedesktop.org/notification-spec/latest/
"""

from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from app.desktop.identity import DESKTOP_FILE
from app.desktop.notify.bus import SessionBus
from app.desktop.presenter.notices import ACTION_WORDS, Notice

_SERVICE, _PATH = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"
_MOST_WAITING = 16
_MOST_SHOWN = 32
_DEFAULT = "default"
"""What a click on the notification itself means."""
_LOW, _NORMAL = 0, 1


class FreedesktopNotifier(QObject):
    """Connects when the first notice is to be shown, and stays connected to hear which button is chosen."""

    chosen = Signal(object, str)
    """The :class:`Notice` and a :data:`NoticeAction`."""
    unshown = Signal(object)
    """A notice that could not be shown this way."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._bus: SessionBus | None = None
        self._can: frozenset[str] | None = None
        self._waiting: list[Notice] = []
        self._shown: dict[int, Notice] = {}
        """What is on the screen, by the server's number for it."""

    def show(self, notice: Notice) -> None:
        """Show a notice as soon as the bus is there."""
        self._waiting = [*self._waiting, notice][-_MOST_WAITING:]
        if self._bus is None:
            self._connect()
        elif self._can is not None:
            self._send_waiting()

    def close(self) -> None:
        """Let go of the bus."""
        bus, self._bus, self._can = self._bus, None, None
        if bus is not None:
            bus.close()
            bus.deleteLater()

    def _connect(self) -> None:
        bus = SessionBus(self)
        bus.opened.connect(self._on_opened)
        bus.closed.connect(self._on_closed)
        bus.signalled.connect(self._on_signal)
        self._bus = bus
        if not bus.open():
            self._on_closed()

    @Slot()
    def _on_opened(self) -> None:
        if self._bus is not None:
            self._bus.watch(_SERVICE, _PATH)
            self._bus.call(_SERVICE, _PATH, "GetCapabilities", then=self._on_capabilities)

    def _on_capabilities(self, body: tuple[Any, ...] | None) -> None:
        if body is None:  # nobody shows notifications on this desktop
            self._on_closed()
            return
        self._can = frozenset(body[0])
        self._send_waiting()

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for notice in waiting:
            self._send(notice)

    def _send(self, notice: Notice) -> None:
        assert self._bus is not None
        before = next((number for number, shown in self._shown.items() if shown.topic == notice.topic), 0)
        body = ("Stoker", before, DESKTOP_FILE, notice.headline, self._text(notice), self._actions(notice))
        hints = {"desktop-entry": ("s", DESKTOP_FILE), "urgency": ("y", _NORMAL if notice.important else _LOW)}
        then = partial(self._on_shown, notice)
        self._bus.call(_SERVICE, _PATH, "Notify", "susssasa{sv}i", (*body, hints, -1), then=then)

    def _text(self, notice: Notice) -> str:
        if "body-markup" not in (self._can or ()):
            return notice.text
        return notice.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    def _actions(self, notice: Notice) -> list[str]:
        if "actions" not in (self._can or ()):
            return []
        pairs = [(_DEFAULT, ACTION_WORDS["open"]), *((action, ACTION_WORDS[action]) for action in notice.actions)]
        return [word for pair in pairs for word in pair]

    def _on_shown(self, notice: Notice, body: tuple[Any, ...] | None) -> None:
        if body is None:
            self.unshown.emit(notice)
            return
        self._shown.pop(body[0], None)
        self._shown[body[0]] = notice
        while len(self._shown) > _MOST_SHOWN:
            self._shown.pop(next(iter(self._shown)))

    @Slot(str, object)
    def _on_signal(self, member: str, body: tuple[Any, ...]) -> None:
        if member == "NotificationClosed":
            self._shown.pop(body[0], None)
        elif member == "ActionInvoked" and (notice := self._shown.get(body[0])) is not None:
            self.chosen.emit(notice, "open" if body[1] == _DEFAULT else body[1])

    @Slot()
    def _on_closed(self) -> None:
        """Hand on what was not shown; the next notice tries the bus anew."""
        waiting, self._waiting = self._waiting, []
        self._shown.clear()
        self.close()
        for notice in waiting:
            self.unshown.emit(notice)
