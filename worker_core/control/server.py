"""Serves the local control channel inside the core.

A client that does not say a proper hello in time, or says something unintelligible later, is closed without a word.
No client can hold up another or the core: each has a bounded queue, in which the newest status replaces older ones
and old metric points make room for new ones and are counted. Those who have not said hello yet take no place of those
who have, and a process of another user is closed before it says anything.
"""

import asyncio
import contextlib
import hmac
import logging
import os
import stat
import sys
from collections import OrderedDict, deque
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal, Protocol

from worker_core.control.endpoint import make_endpoint, remove_endpoint, write_endpoint
from worker_core.control.messages import (
    HELLO_TIMEOUT_S,
    MAX_CLIENTS,
    MAX_LINE_BYTES,
    PING_S,
    PROTOCOL_VERSION,
    ClientLine,
    Endpoint,
    ErrorBody,
    ErrorCode,
    Hello,
    MetricEvent,
    Ping,
    Reply,
    Request,
    Snapshot,
    Subscribe,
    Welcome,
)
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.paths import Paths
from worker_core.machine.peers import peer_uid
from worker_core.wire.codec import BadMessage, Message, decode, encode
from worker_core.wire.status import WorkerStatus

log = logging.getLogger(__name__)

_QUEUE = 256
_MAX_OPEN_REQUESTS = 16
_REMEMBERED_REPLIES = MAX_CLIENTS * _MAX_OPEN_REQUESTS
_MAX_STRANGERS = 64
"""Clients that have not said hello yet; one more closes the one that has waited longest."""
_SILENCE_S = 3 * PING_S
_PUBLISH_AGAIN_S = 5.0
_CLIENT_LINE: Any = ClientLine
Transport = Literal["unix", "tcp"]
NATIVE: Transport = "tcp" if sys.platform == "win32" else "unix"


class ControlRefused(Exception):
    """An operation cannot be done; the text is for a person."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code: ErrorCode = code


class Operations(Protocol):
    """What the core does for its faces."""

    async def perform(self, request: Request) -> object:
        """Do one operation and return its result; raises :class:`ControlRefused`."""
        ...

    def status(self) -> WorkerStatus:
        """Return the whole truth now."""
        ...


class ControlServer:
    """Listens for faces of this core, at most :data:`MAX_CLIENTS` of them."""

    def __init__(self, paths: Paths, operations: Operations, version: str, transport: Transport = NATIVE) -> None:
        self._transport: Transport = transport
        self._paths = paths
        self._operations = operations
        self._version = version
        self._endpoint: Endpoint | None = None
        self._server: asyncio.Server | None = None
        self._strangers: dict[_Client, None] = {}
        self._clients: set[_Client] = set()
        self._replies: OrderedDict[str, asyncio.Future[Reply]] = OrderedDict()
        self._work: set[asyncio.Task[None]] = set()
        self._rev = 0
        self._publishing: asyncio.Task[None] | None = None

    async def start(self) -> Endpoint:
        """Listen, and publish where."""
        self._server, address = await self._listen()
        self._endpoint = make_endpoint(self._transport, address, self._version)
        try:
            write_endpoint(self._paths, self._endpoint)
        except OSError as error:
            log.warning("no face can find this worker, because control.json cannot be written: %s", error)
            self._publishing = asyncio.create_task(self._publish_endpoint(self._endpoint))
        return self._endpoint

    async def _publish_endpoint(self, endpoint: Endpoint) -> None:
        """Publish as soon as the disk has room again."""
        while True:
            await asyncio.sleep(_PUBLISH_AGAIN_S)
            with contextlib.suppress(OSError):
                write_endpoint(self._paths, endpoint)
                log.info("control.json is written: faces find this worker again")
                return

    async def stop(self) -> None:
        """Take the endpoint away and close every client."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)
        remove_endpoint(self._paths)
        if self._server is not None:
            self._server.close()
        for client in (*self._strangers, *self._clients):
            client.close()
        for task in tuple(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        self._paths.control_socket.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # never made (Windows), or something else lies in it
            self._paths.control_socket.parent.rmdir()

    @property
    def watched(self) -> bool:
        """Whether any face is subscribed."""
        return any(client.subscribed for client in self._clients)

    def publish(self) -> None:
        """Send the status to all subscribers; one that is slow gets the newest only."""
        watching = [client for client in self._clients if client.subscribed]
        if watching:
            snapshot = self._snapshot()
            for client in watching:
                client.offer_snapshot(snapshot)

    def publish_metric(self, event: MetricEvent) -> None:
        """Send new points to those who asked for them."""
        for client in self._clients:
            if client.wants_metrics:
                client.offer_metric(event)

    def _snapshot(self) -> Snapshot:
        self._rev += 1
        return Snapshot(rev=self._rev, status=self._operations.status())

    async def _listen(self) -> tuple[asyncio.Server, str]:
        if self._transport == "tcp":
            server = await asyncio.start_server(self._receive, "127.0.0.1", 0, limit=MAX_LINE_BYTES)
            return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        path = self._paths.control_socket
        _make_own_folder(path.parent)
        path.unlink(missing_ok=True)  # we hold the home's lock, so a socket that lies here is a dead core's
        before = os.umask(0o077)
        try:
            server = await asyncio.start_unix_server(self._receive, str(path), limit=MAX_LINE_BYTES)
        finally:
            os.umask(before)
        return server, str(path)

    def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(reader, writer)
        if not _is_ours(writer):
            client.close()
            return
        if len(self._strangers) >= _MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]  # now, so that each of a burst of callers closes another one
            oldest.close()
        self._strangers[client] = None
        self._start(self._serve(client))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _serve(self, client: "_Client") -> None:
        try:
            if await self._knows(client) and len(self._clients) < MAX_CLIENTS:
                self._clients.add(client)
                client.offer(Welcome(v=PROTOCOL_VERSION, version=self._version, pid=os.getpid()))
                await self._converse(client)
        finally:
            self._clients.discard(client)
            client.close()

    async def _knows(self, client: "_Client") -> bool:
        """Whether the client says a proper hello in time."""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                line = await client.read()
        except (TimeoutError, _BadLine):
            return False
        finally:
            self._strangers.pop(client, None)
        if not isinstance(line, Hello) or self._endpoint is None or line.v != PROTOCOL_VERSION:
            return False
        if not hmac.compare_digest(line.token.encode(), self._endpoint.token.encode()):
            log.warning("a local client with a wrong token was closed")
            return False
        return True

    async def _converse(self, client: "_Client") -> None:
        writing = asyncio.create_task(client.write_queue())
        pinging = asyncio.create_task(client.ping())
        try:
            while True:
                async with asyncio.timeout(_SILENCE_S):
                    line = await client.read()
                self._obey(client, line)
        except (_BadLine, TimeoutError):
            return  # gone, silent for too long, or not a client of ours
        finally:
            for task in (writing, pinging):
                task.cancel()
            await asyncio.gather(writing, pinging, return_exceptions=True)

    def _obey(self, client: "_Client", line: ClientLine) -> None:
        match line:
            case Request() if client.open_requests < _MAX_OPEN_REQUESTS:
                client.open_requests += 1
                self._start(self._answer(client, line))
            case Request() | Hello():
                client.close()
            case Subscribe():
                client.subscribed, client.wants_metrics = True, line.metrics
                client.offer_snapshot(self._snapshot())
            case Ping():
                return

    async def _answer(self, client: "_Client", request: Request) -> None:
        """Answer a request; one whose id came before gets the answer of then, and nothing is done twice."""
        known = self._replies.get(request.id)
        if known is None:
            known = self._replies[request.id] = asyncio.get_running_loop().create_future()
            while len(self._replies) > _REMEMBERED_REPLIES:
                self._replies.popitem(last=False)
            known.set_result(await self._perform(request))
        client.offer(await asyncio.shield(known))
        client.open_requests -= 1

    async def _perform(self, request: Request) -> Reply:
        try:
            return Reply(id=request.id, ok=await self._operations.perform(request))
        except ControlRefused as refused:
            return Reply(id=request.id, error=ErrorBody(code=refused.code, text=str(refused)))
        except Exception:
            log.exception("the operation %s failed", request.op)
            text = "the worker failed at this; its log says more"
            return Reply(id=request.id, error=ErrorBody(code="failed", text=text))


def _make_own_folder(folder: Path) -> None:
    """Make the socket's folder; in the system's temporary folder, somebody else may have put one there before us."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or (sys.platform != "win32" and found.st_uid != os.getuid()):
        raise PermissionError(f"{folder} is not a folder of yours; remove it, or choose a shorter STOKER_HOME")
    private_folder(folder)


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end may be a process of our user; over TCP only its token can tell."""
    uid = peer_uid(writer.get_extra_info("socket"))
    if sys.platform == "win32" or uid is None or uid == os.getuid():
        return True
    log.warning("a process of another user (uid %d) knocked at the control channel", uid)
    return False


class _BadLine(Exception):
    """The line ended, or held something that no client of ours says."""


class _Client:
    """One connected face and its bounded queue."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.subscribed = False
        self.wants_metrics = False
        self.open_requests = 0
        self._reader = reader
        self._writer = writer
        self._lines: deque[bytes] = deque()
        self._metrics: deque[MetricEvent] = deque()
        self._snapshot: Snapshot | None = None
        self._lost = 0
        self._filled = asyncio.Event()

    async def read(self) -> ClientLine:
        """Return the next line; raises _BadLine when there is none or it is not ours."""
        try:
            line = await self._reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
            raise _BadLine from error
        if len(line) > MAX_LINE_BYTES:
            raise _BadLine
        try:
            return decode(line, _CLIENT_LINE)
        except BadMessage as error:
            raise _BadLine from error

    def offer(self, message: Message) -> None:
        """Queue a line that must not be lost; a client that lets them pile up is closed."""
        line = encode(message)
        if len(line) >= MAX_LINE_BYTES and isinstance(message, Reply):
            error = ErrorBody(code="failed", text="the answer is too long for one line; ask for less")
            line = encode(Reply(id=message.id, error=error))
        if len(self._lines) >= _QUEUE:
            self.close()
            return
        self._lines.append(line)
        self._filled.set()

    def offer_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the status that waits."""
        self._snapshot = snapshot
        self._filled.set()

    def offer_metric(self, event: MetricEvent) -> None:
        """Queue metric points; the oldest go first when the client is slow."""
        if len(self._metrics) >= _QUEUE:
            self._metrics.popleft()
            self._lost += 1
        self._metrics.append(event)
        self._filled.set()

    async def write_queue(self) -> None:
        """Write what is queued, as fast as the client reads; one that does not read at all is closed."""
        try:
            while True:
                await self._filled.wait()
                self._filled.clear()
                for line in self._take():
                    self._writer.write(line + b"\n")
                async with asyncio.timeout(PING_S):
                    await self._writer.drain()
        except (OSError, TimeoutError):
            self.close()

    async def ping(self) -> None:
        """Send a ping now and then, so that a dead client is noticed."""
        while True:
            await asyncio.sleep(PING_S)
            self.offer(Ping())

    def close(self) -> None:
        """Close the line."""
        with contextlib.suppress(OSError):
            self._writer.close()

    def _take(self) -> list[bytes]:
        lines = list(self._lines)
        self._lines.clear()
        if self._snapshot is not None:
            lines.append(encode(self._snapshot))
            self._snapshot = None
        for event in self._metrics:
            lines.append(encode(self._count_loss(event)))
        self._metrics.clear()
        return lines

    def _count_loss(self, event: MetricEvent) -> MetricEvent:
        lost, self._lost = self._lost, 0
        if not lost:
            return event
        return MetricEvent(attempt_id=event.attempt_id, step=event.step, ts=event.ts, values=event.values, lost=lost)
