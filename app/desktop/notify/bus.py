"""The session bus: calls, their answers and the signals of one service, driven by Qt's event loop.

The bytes are made and read by jeepney, which keyring brings along; Qt's own D-Bus module cannot send the unsigned
numbers that notifications want, and costs memory of a tray that rests. https://dbus.freedesktop.org/doc/dbus-specification.html
"""

import logging
import os
import socket
from collections.abc import Callable
from importlib import import_module
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from app.desktop.control.line import Line

log = logging.getLogger(__name__)

MOST_WAITING = 32
_DAEMON, _DAEMON_PATH = "org.freedesktop.DBus", "/org/freedesktop/DBus"
Answered = Callable[[tuple[Any, ...] | None], None]
"""Gets the body of an answer, or None when the call failed."""


class SessionBus(QObject):
    """One connection; made by :meth:`open`, over at ``closed``."""

    opened = Signal()
    closed = Signal()
    signalled = Signal(str, object)
    """Member and body of a signal of the watched service."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._jeepney: Any = import_module("jeepney")
        self._low: Any = import_module("jeepney.low_level")
        self._auth: Any = None
        self._parser: Any = None
        self._line: Line | None = None
        self._serial = 0
        self._calls: dict[int, Answered] = {}

    @property
    def is_open(self) -> bool:
        return self._line is not None and self._auth is not None and bool(self._auth.authenticated)

    def open(self) -> bool:
        """Begin to connect; False when there is no session bus here."""
        address = _session_address()
        if address is None:
            return False
        self._auth = import_module("jeepney.auth").Authenticator()
        self._parser = self._low.Parser()
        line = Line(self, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        self._line = line
        line.opened.connect(self._on_open)
        line.received.connect(self._on_bytes)
        line.closed.connect(self._on_closed)
        line.connect_to(address)
        return True

    def close(self) -> None:
        """End the connection without a signal."""
        line, self._line = self._line, None
        self._calls.clear()
        if line is not None:
            line.abort()

    def call(
        self, service: str, path: str, member: str, signature: str = "", body: tuple[Any, ...] = (), *, then: Answered
    ) -> None:
        """Call a method; ``then`` is called once, unless the bus goes away first."""
        if self._line is None or len(self._calls) >= MOST_WAITING:
            then(None)
            return
        where = self._jeepney.DBusAddress(path, bus_name=service, interface=service)
        message = self._jeepney.new_method_call(where, member, signature or None, body)
        self._serial += 1
        self._calls[self._serial] = then
        self._line.write(message.serialise(serial=self._serial))

    def watch(self, service: str, path: str) -> None:
        """Ask for the signals that ``service`` sends from ``path``."""
        rule = f"type='signal',sender='{service}',path='{path}'"
        self.call(_DAEMON, _DAEMON_PATH, "AddMatch", "s", (rule,), then=_ignore)

    @Slot()
    def _on_open(self) -> None:
        self._speak()

    def _speak(self) -> None:
        """Send what the log-in has to say."""
        if self._line is not None and (words := self._auth.data_to_send()):
            self._line.write(words)

    @Slot(bytes)
    def _on_bytes(self, data: bytes) -> None:
        try:
            if not self._auth.authenticated:
                self._log_in(data)
                return
            messages = self._parser.feed(data)
        except ValueError as error:  # a refused log-in, or bytes that are no message
            log.warning("The session bus cannot be understood: %s", error)
            self.close()
            self.closed.emit()
            return
        for message in messages:
            self._take(message)

    def _log_in(self, data: bytes) -> None:
        self._auth.feed(data)
        if not self._auth.authenticated:
            self._speak()
            return
        if self._line is not None:
            self._line.write(b"BEGIN\r\n")
        self.call(_DAEMON, _DAEMON_PATH, "Hello", then=self._on_hello)

    def _on_hello(self, body: tuple[Any, ...] | None) -> None:
        if body is not None:
            self.opened.emit()

    def _take(self, message: Any) -> None:
        kinds, fields = self._jeepney.MessageType, self._jeepney.HeaderFields
        header = message.header
        if header.message_type is kinds.signal:
            self.signalled.emit(str(header.fields.get(fields.member, "")), message.body)
            return
        then = self._calls.pop(header.fields.get(fields.reply_serial, 0), None)
        if then is not None:
            then(message.body if header.message_type is kinds.method_return else None)

    @Slot()
    def _on_closed(self) -> None:
        self.close()
        self.closed.emit()


def _ignore(body: tuple[Any, ...] | None) -> None:
    """Take no notice of an answer."""


def _session_address() -> str | None:
    """Return the first Unix address of the session bus; by default the one systemd makes."""
    bus: Any = import_module("jeepney.bus")
    given = os.environ.get("DBUS_SESSION_BUS_ADDRESS")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not given and runtime:
        given = f"unix:path={runtime}/bus"
    if not given:
        return None
    try:
        return next(iter(bus.get_connectable_addresses(given)))
    except (ValueError, KeyError, RuntimeError) as error:
        log.info("The address of the session bus cannot be used: %s", error)
        return None
