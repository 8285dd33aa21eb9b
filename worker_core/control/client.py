"""A small blocking client of the control channel, for the terminal commands.

ControlFailure
├── CoreNotRunning    no core of this home answers
├── CoreBusy          it runs, but has no line free
├── CoreGone          the core closed the line
└── ControlError      the core refused: code and a sentence for a person
"""

import random
import socket
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from worker_core.control.endpoint import endpoint_alive, read_endpoint
from worker_core.control.messages import (
    MAX_LINE_BYTES,
    PROTOCOL_VERSION,
    CoreLine,
    Endpoint,
    ErrorCode,
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
from worker_core.machine.paths import Paths
from worker_core.wire.codec import BadMessage, Message, convert, decode, encode
from worker_core.wire.ids import new_id
from worker_core.wire.status import WorkerStatus

_SILENCE_S = 60.0
_BUSY_PAUSE_S = 0.2
_CORE_LINE: Any = CoreLine


class ControlFailure(Exception):
    """The control channel could not do what was asked."""


class CoreNotRunning(ControlFailure):
    """No core of this home answers."""


class CoreBusy(ControlFailure):
    """The core runs, but takes no further client just now."""


class CoreGone(ControlFailure):
    """The core closed the line."""


class ControlError(ControlFailure):
    """The core refused or failed; the text is for a person."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code: ErrorCode = code
        self.text = text


class ControlClient:
    """One line to the running core."""

    def __init__(self, line: socket.socket, endpoint: Endpoint, client: str, timeout_s: float) -> None:
        self._line = line
        self._buffer = bytearray()
        self._send(Hello(v=PROTOCOL_VERSION, token=endpoint.token, client=client))
        answer = self._receive(time.monotonic() + timeout_s)
        if not isinstance(answer, Welcome):
            raise CoreGone("the core did not welcome this client")
        self.welcome: Welcome = answer

    @classmethod
    def connect(cls, paths: Paths, client: str = "cli", timeout_s: float = 5.0) -> "ControlClient":
        """Open a line to the core of this home, again and again while it has none free.

        Raises CoreNotRunning, CoreBusy or BadEndpoint.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return cls._connect_once(paths, client, max(0.1, deadline - time.monotonic()))
            except CoreBusy:
                if time.monotonic() + _BUSY_PAUSE_S > deadline:
                    raise
                time.sleep(random.uniform(_BUSY_PAUSE_S / 2, _BUSY_PAUSE_S))

    @classmethod
    def _connect_once(cls, paths: Paths, client: str, timeout_s: float) -> "ControlClient":
        endpoint = read_endpoint(paths)
        if endpoint is None or not endpoint_alive(endpoint):
            raise CoreNotRunning("no worker runs in this home; start one with `stoker run`")
        busy = f"the worker (process {endpoint.pid}) serves as many clients as it can just now"
        try:
            line = _open(endpoint, timeout_s)
        except (BlockingIOError, TimeoutError) as error:  # its queue of callers is full
            raise CoreBusy(busy) from error
        except OSError as error:
            raise CoreNotRunning(f"the worker (process {endpoint.pid}) does not answer: {error}") from error
        try:
            return cls(line, endpoint, client, timeout_s)
        except CoreGone as error:  # closed before its welcome, though our token is the one it published
            line.close()
            raise CoreBusy(busy) from error
        except BaseException:
            line.close()
            raise

    def request(
        self, op: Operation, args: Message | Mapping[str, object] | None = None, *, timeout_s: float = 30.0
    ) -> Any:
        """Ask for one operation and return its plain JSON result; raises ControlError, CoreGone or TimeoutError."""
        request = Request(id=new_id("req"), op=op, args=_plain(args))
        self._send(request)
        deadline = time.monotonic() + timeout_s
        while True:
            line = self._receive(deadline)
            if isinstance(line, Reply) and line.id == request.id:
                if line.error is not None:
                    raise ControlError(line.error.code, line.error.text)
                return line.ok

    def status(self) -> WorkerStatus:
        """Return the worker's status now."""
        return convert(self.request("status"), WorkerStatus)

    def snapshots(self, metrics: bool = False) -> Iterator[Snapshot | MetricEvent]:
        """Yield the status now and at each change, and metric points on request, until the core leaves (CoreGone)."""
        self._send(Subscribe(metrics=metrics))
        while True:
            line = self._receive(time.monotonic() + _SILENCE_S)
            if isinstance(line, (Snapshot, MetricEvent)):
                yield line

    def close(self) -> None:
        """Close the line."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, message: Message) -> None:
        try:
            self._line.sendall(encode(message) + b"\n")
        except OSError as error:
            raise CoreGone(f"the worker closed the control channel: {error}") from error

    def _receive(self, deadline: float) -> CoreLine:
        """Return the next line that is not a ping; pings are answered."""
        while True:
            line = self._next_line(deadline)
            try:
                message: CoreLine = decode(line, _CORE_LINE)
            except BadMessage as error:
                raise CoreGone(f"the worker said something unintelligible: {error}") from error
            if not isinstance(message, Ping):
                return message
            self._send(Ping())

    def _next_line(self, deadline: float) -> bytes:
        while True:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return line
            if len(self._buffer) > MAX_LINE_BYTES:
                raise CoreGone("the worker sent a line that is too long")
            self._buffer += self._read_some(deadline)

    def _read_some(self, deadline: float) -> bytes:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the worker did not answer in time")
        self._line.settimeout(left)
        try:
            received = self._line.recv(64 * 1024)
        except TimeoutError as error:
            raise TimeoutError("the worker did not answer in time") from error
        except OSError as error:
            raise CoreGone(f"the worker closed the control channel: {error}") from error
        if not received:
            raise CoreGone("the worker closed the control channel")
        return received


def _open(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    if endpoint.transport == "unix":
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(timeout_s)
        try:
            line.connect(endpoint.address)
        except OSError:
            line.close()
            raise
        return line
    host, _, port = endpoint.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=timeout_s)


def _plain(args: Message | Mapping[str, object] | None) -> dict[str, Any]:
    if args is None:
        return {}
    return decode(encode(args), dict[str, Any])
