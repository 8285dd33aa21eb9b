"""Sleep and shutdown as logind announces them on the system bus, with a delay lock while the machine is awake.

https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.login1.html: ``PrepareForSleep(b)`` and
``PrepareForShutdown(b)`` say True before and False after; closing the descriptor that ``Inhibit`` returned lets the
machine go on.
"""

import contextlib
import logging
import os
import socket
import threading
from collections import deque
from contextlib import ExitStack
from importlib import import_module
from typing import Any

from worker_core.machine.power import PowerEvent, Tell

log = logging.getLogger(__name__)

_RETRY_S = 300.0
"""How long until a system bus that is missing, or went away, is looked for again."""
_ANSWER_S = 10.0
_MAX_WAITING = 16
_NAME, _PATH, _INTERFACE = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
_EVENTS: dict[tuple[str, bool], PowerEvent] = {
    ("PrepareForSleep", True): "sleep-coming",
    ("PrepareForSleep", False): "woke",
    ("PrepareForShutdown", True): "end-coming",
}


class LogindPower:
    """Listens in a thread; on a system without logind nothing is ever told."""

    def __init__(self, retry_s: float = _RETRY_S) -> None:
        self._retry_s = retry_s
        self._tell: Tell = lambda event: None
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._line: Any = None
        self._delay: int | None = None
        self._thread: threading.Thread | None = None

    def start(self, tell: Tell) -> None:
        """Begin to listen."""
        self._tell = tell
        self._over.clear()
        self._thread = threading.Thread(target=self._listen_for_ever, name="logind", daemon=True)
        self._thread.start()

    def ready(self) -> None:
        """Give the delay lock up."""
        with self._guard:
            if self._delay is not None:
                os.close(self._delay)
                self._delay = None

    def stop(self) -> None:
        """End the thread and give the delay lock up."""
        self._over.set()
        self.ready()
        with self._guard:
            if self._line is not None:
                with contextlib.suppress(OSError):  # the bus went away first
                    self._line.sock.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(_ANSWER_S)

    def _listen_for_ever(self) -> None:
        while not self._over.is_set():
            try:
                self._listen()
            except Exception as error:  # no bus, no logind, a line that broke, bytes that are no D-Bus message
                if not self._over.is_set():
                    log.debug("sleep and shutdown are not announced here: %s", error)
            finally:
                self.ready()
            self._over.wait(self._retry_s)

    def _listen(self) -> None:
        dbus, blocking = _jeepney()
        with blocking.open_dbus_connection(bus="SYSTEM", enable_fds=True) as line, ExitStack() as heard:
            with self._guard:
                self._line = line
            said: deque[Any] = deque(maxlen=_MAX_WAITING)
            for signal in ("PrepareForSleep", "PrepareForShutdown"):
                facts = {"type": "signal", "interface": _INTERFACE, "path": _PATH, "member": signal}
                heard.enter_context(line.filter(dbus.MatchRule(**facts), queue=said))
                _bus(line).AddMatch(dbus.MatchRule(sender=_NAME, **facts))
            heard.callback(self._forget_line)
            self._hold(line)
            while not self._over.is_set():
                self._see(line, line.recv_until_filtered(said))

    def _forget_line(self) -> None:
        with self._guard:
            self._line = None

    def _see(self, line: Any, signal: Any) -> None:
        names, fields = _jeepney()[0].HeaderFields, signal.header.fields
        event = _EVENTS.get((fields.get(names.member), bool(signal.body[0])))
        # Anybody on the bus may send us a signal of this name; only logind's own word counts.
        if event is None or fields.get(names.sender) != _owner(line):
            return
        self._tell(event)
        if event == "woke":
            self._hold(line)

    def _hold(self, line: Any) -> None:
        """Ask for a delay lock; raises OSError where none is to be had."""
        dbus, _ = _jeepney()
        manager = dbus.DBusAddress(_PATH, bus_name=_NAME, interface=_INTERFACE)
        words = ("sleep:shutdown", "Stoker", "A training job saves a checkpoint", "delay")
        answer = line.send_and_get_reply(dbus.new_method_call(manager, "Inhibit", "ssss", words), timeout=_ANSWER_S)
        if answer.header.message_type is dbus.MessageType.error:
            raise ConnectionError(str(answer.body[0]) if answer.body else "logind gives no delay lock")
        with self._guard:
            if self._over.is_set() or self._delay is not None:
                answer.body[0].close()
            else:
                self._delay = answer.body[0].to_raw_fd()


def _owner(line: Any) -> str | None:
    """Return the connection that is logind now; it may have been started again."""
    dbus, _ = _jeepney()
    try:
        return str(_bus(line).GetNameOwner(_NAME)[0])
    except dbus.DBusErrorResponse:
        return None


def _bus(line: Any) -> Any:
    dbus, blocking = _jeepney()
    return blocking.Proxy(dbus.message_bus, line, timeout=_ANSWER_S)


def _jeepney() -> tuple[Any, Any]:
    """Return jeepney and its blocking half, which have no types; loaded in the thread that needs them."""
    return import_module("jeepney"), import_module("jeepney.io.blocking")
