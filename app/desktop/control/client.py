"""The desktop's end of the control channel: JSON lines over a local socket, driven by Qt's event loop.

Nothing here waits: a core that hangs costs the desktop a timer, never a frozen menu.
"""

import secrets
import socket
from functools import partial
from typing import Any, Literal

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.desktop.control.line import Line
from worker_core.control.messages import (
    HELLO_TIMEOUT_S,
    MAX_LINE_BYTES,
    PING_S,
    PROTOCOL_VERSION,
    CoreLine,
    Endpoint,
    ErrorBody,
    Hello,
    MetricEvent,
    Operation,
    Ping,
    Reply,
    Request,
    Snapshot,
    Subscribe,
    Welcome,
)
from worker_core.wire.codec import BadMessage, Message, decode, encode

DropReason = Literal["closed", "silent", "garbage", "version"]
REQUEST_TIMEOUT_S = 8.0
_CORE_LINE: Any = CoreLine
LOST_LINK = ErrorBody(code="failed", text="The worker went away before it answered. Try again.")
NO_ANSWER = ErrorBody(code="failed", text="The worker does not answer. Try again in a moment.")
NOT_CONNECTED = ErrorBody(code="failed", text="The worker is not running or does not answer.")


class Call(QObject):
    """One request on its way; exactly one of its signals is emitted, once."""

    succeeded = Signal(object)
    """The reply's ``ok`` as plain JSON values."""
    failed = Signal(object)
    """An :class:`ErrorBody`."""

    def __init__(self, parent: QObject, timeout_s: float | None) -> None:
        super().__init__(parent)
        self._done = False
        if timeout_s is not None:
            timer = QTimer(self, singleShot=True, interval=int(timeout_s * 1000))
            timer.timeout.connect(self._expire)
            timer.start()

    @property
    def is_done(self) -> bool:
        return self._done

    def finish(self, reply: Reply) -> None:
        """Pass the core's reply on."""
        if self._done:
            return
        self._done = True
        if reply.error is None:
            self.succeeded.emit(reply.ok)
        else:
            self.failed.emit(reply.error)
        self.deleteLater()

    def fail(self, error: ErrorBody) -> None:
        """End the call without a reply."""
        self.finish(Reply(id="", error=error))

    @Slot()
    def _expire(self) -> None:
        self.fail(NO_ANSWER)


class ControlClient(QObject):
    """Connects to one endpoint at a time; who decides when to try again is the supervisor."""

    welcomed = Signal(object)
    snapshot_arrived = Signal(object)
    metric_arrived = Signal(object)
    dropped = Signal(str)
    """The link ended, for a :data:`DropReason`."""

    def __init__(self, parent: QObject, silence_s: float = 2.5 * PING_S, hello_s: float = 2 * HELLO_TIMEOUT_S) -> None:
        super().__init__(parent)
        self._line: Line | None = None
        self._token = ""
        self._welcome: Welcome | None = None
        self._buffer = bytearray()
        self._calls: dict[str, Call] = {}
        self._with_metrics = False
        self._silence_ms = int(silence_s * 1000)
        self._hello_ms = int(hello_s * 1000)
        self._watch = QTimer(self, singleShot=True)
        self._watch.timeout.connect(self._on_silence)

    @property
    def is_connected(self) -> bool:
        return self._welcome is not None

    def connect_to(self, endpoint: Endpoint) -> None:
        """Start a connection; ends in ``welcomed`` or ``dropped``."""
        self._forget_line()
        self._token = endpoint.token
        self._watch.start(self._hello_ms)
        if endpoint.transport == "unix":
            line = Line(self, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._adopt(line)
            line.connect_to(endpoint.address)
        else:
            host, _, port = endpoint.address.rpartition(":")
            line = Line(self, socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            self._adopt(line)
            line.connect_to((host, int(port)))

    def close(self) -> None:
        """End the link without a ``dropped`` signal."""
        self._forget_line()
        self._fail_calls()

    def request(
        self, op: Operation, args: Message | None = None, *, timeout_s: float | None = REQUEST_TIMEOUT_S
    ) -> Call:
        """Send a request; without a link the call fails in the next turn of the event loop."""
        call = Call(self, timeout_s)
        if self._welcome is None:
            QTimer.singleShot(0, call, partial(call.fail, NOT_CONNECTED))
            return call
        request_id = secrets.token_hex(8)
        self._calls = {key: waiting for key, waiting in self._calls.items() if not waiting.is_done}
        self._calls[request_id] = call
        self._send(Request(id=request_id, op=op, args=_plain(args)))
        return call

    def follow_metrics(self, wanted: bool) -> None:
        """Ask for metric events too, or no longer; stays so over reconnections."""
        self._with_metrics = wanted
        self.subscribe()

    def subscribe(self) -> None:
        """Ask for a snapshot now and at each change."""
        if self._welcome is not None:
            self._send(Subscribe(metrics=self._with_metrics))

    def _adopt(self, line: Line) -> None:
        self._line = line
        line.opened.connect(self._on_open)
        line.received.connect(self._on_bytes)
        line.closed.connect(self._on_closed)

    def _send(self, message: Hello | Request | Subscribe | Ping) -> None:
        if self._line is not None:
            self._line.write(encode(message) + b"\n")

    @Slot()
    def _on_open(self) -> None:
        self._send(Hello(v=PROTOCOL_VERSION, token=self._token, client="desktop"))

    @Slot(bytes)
    def _on_bytes(self, data: bytes) -> None:
        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            # A line that ends the link leaves the rest unread.
            if not self._token:
                return
            self._on_line(line)
        if len(self._buffer) > MAX_LINE_BYTES:
            self._drop("garbage")

    def _on_line(self, line: bytes) -> None:
        try:
            message: CoreLine = decode(line, _CORE_LINE)
        except BadMessage:
            self._drop("garbage")
            return
        if self._welcome is not None:
            self._watch.start(self._silence_ms)
        match message:
            case Welcome():
                self._on_welcome(message)
            case Reply():
                if call := self._calls.pop(message.id, None):
                    call.finish(message)
            case Snapshot():
                self.snapshot_arrived.emit(message)
            case MetricEvent():
                self.metric_arrived.emit(message)
            case Ping():
                self._send(Ping())

    def _on_welcome(self, welcome: Welcome) -> None:
        if welcome.v != PROTOCOL_VERSION:
            self._drop("version")
            return
        self._welcome = welcome
        # The snapshot asked for now is due as soon as the welcome was.
        self._watch.start(self._hello_ms)
        self.subscribe()
        self.welcomed.emit(welcome)

    @Slot()
    def _on_closed(self) -> None:
        self._drop("closed")

    @Slot()
    def _on_silence(self) -> None:
        self._drop("silent")

    def _drop(self, reason: DropReason) -> None:
        self._forget_line()
        self._fail_calls()
        self.dropped.emit(reason)

    def _forget_line(self) -> None:
        self._watch.stop()
        self._token = ""
        self._welcome = None
        self._buffer.clear()
        line, self._line = self._line, None
        if line is not None:
            line.abort()

    def _fail_calls(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.fail(LOST_LINK)


def _plain(args: Message | None) -> dict[str, Any]:
    return {} if args is None else decode(encode(args), dict[str, Any])
