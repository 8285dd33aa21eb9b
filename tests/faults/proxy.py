"""A fault proxy: stands between workers and their coordinator, passes HTTP on and does harm by rule.

It speaks plain HTTP/1.1 and knows where a message ends, so that faults hit whole requests and answers: an answer can be
lost after its effect, a request can arrive twice. It runs in a thread of its own; rules may change at any time.
"""

import asyncio
import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.faults.record import Record, Request
from tests.faults.rules import Rule, RuleBook

_HEAD_BYTES = 1 << 16
_LOOK_S = 0.05
_CONNECT_S = 5.0
_LONGEST_ANSWER_S = 90.0


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    raw: bytes
    last: bool
    """Whether the coordinator closes the line after it."""


class _Ended(Exception):
    """The other side closed the line."""


class FaultProxy:
    """Listens on a port of its own, which stays the same for life, and passes on to ``upstream``, which may change."""

    def __init__(self, seed: int = 0, port: int = 0) -> None:
        self.book = RuleBook(seed)
        self.record = Record()
        self.upstream: int | None = None
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(256)
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._lines: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._run, name=f"fault proxy {self.port}", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address workers and coordinator know."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self, seed: int) -> None:
        """Forget what passed, and start anew with other dice."""
        self.book, self.record = RuleBook(seed), Record()
        self.reset_lines()

    def reset_lines(self) -> None:
        """Reset every open line, as a router does that was switched off and on."""

        def reset() -> None:
            for line in tuple(self._lines):
                _reset(line)

        self._loop.call_soon_threadsafe(reset)

    def close(self) -> None:
        """End the proxy and every line through it."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._meet, sock=self._listener, limit=_HEAD_BYTES)
        async with server:
            await self._stop.wait()
            for line in tuple(self._lines):
                _reset(line)
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.add(writer)
        line = _Line(self, reader, writer)
        try:
            await line.serve()
        except (OSError, _Ended, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            _reset(writer)  # whatever broke, the other side sees a broken line
        finally:
            self._lines.discard(writer)
            await line.close()


class _Line:
    """One line of a worker, and ours to the coordinator behind it."""

    def __init__(self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer
        self._upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._early = b""

    async def serve(self) -> None:
        while request := await _read_request(self._reader, self._early):
            self._early = b""
            book, record = self._proxy.book, self._proxy.record
            rule = book.choose(request.path, record.worker_of(request))
            answer = await self._obtain(request, rule)
            await self._deliver(answer, book.wall(request.path, record.worker_of(request)) or rule)
            if answer.last:
                return

    async def close(self) -> None:
        self._writer.close()
        await self._hang_up()

    async def _obtain(self, request: Request, rule: Rule | None) -> _Answer:
        """Return what is to be answered; raises when the line breaks before."""
        if rule is None:
            return await self._exchange(request)
        match rule.harm:
            case "blackhole":
                await self._hold(rule)
                raise _Ended
            case "reset":
                raise _Ended
            case "portal":
                return _made_up(*self._proxy.book.portal())
            case "delay":
                await asyncio.sleep(rule.seconds)
                return await self._exchange(request)
            case "duplicate":
                first = await self._exchange(request)
                second = await self._exchange(request)
                return first if rule.count % 2 else second
            case _:
                return await self._exchange(request)

    async def _deliver(self, answer: _Answer, rule: Rule | None) -> None:
        match rule.harm if rule is not None else None:
            case "blackhole" if rule is not None:
                await self._hold(rule)
                raise _Ended
            case "drop-reply":
                raise _Ended
            case "cut-reply" if rule is not None:
                self._writer.write(answer.raw[: rule.count])
                await self._writer.drain()
                raise _Ended
            case "delay" if rule is not None:
                await asyncio.sleep(rule.seconds)
                self._writer.write(answer.raw)
            case "throttle" if rule is not None:
                for start in range(0, len(answer.raw), max(1, rule.count)):
                    self._writer.write(answer.raw[start : start + max(1, rule.count)])
                    await self._writer.drain()
                    await asyncio.sleep(rule.seconds)
            case _:
                self._writer.write(answer.raw)
        await self._writer.drain()

    async def _hold(self, rule: Rule) -> None:
        """Be a wall for as long as the rule is in force."""
        book = self._proxy.book
        while book.holds(rule) and self._proxy.book is book:  # noqa: ASYNC110 - rules change in other threads
            await asyncio.sleep(_LOOK_S)

    async def _exchange(self, request: Request) -> _Answer:
        """Pass a request on and return the answer; either side may vanish meanwhile."""
        record, sent_at = self._proxy.record, time.monotonic()
        try:
            reader, writer = await self._reach()
        except OSError:
            await self._hang_up()
            raise
        status, body = None, b""
        try:
            writer.write(request.raw)
            await writer.drain()
            answer = await self._await_answer(reader, request.method)
            status, body = answer.status, answer.body
        except BaseException:
            await self._hang_up()
            raise
        finally:
            record.add(request, sent_at, status, body)
        if answer.last:
            await self._hang_up()
        return answer

    async def _await_answer(self, reader: asyncio.StreamReader, method: str) -> _Answer:
        """Read the answer; a worker that goes away meanwhile is seen at once, as without a proxy."""
        answering = asyncio.create_task(_read_answer(reader, method))
        watching = asyncio.create_task(self._reader.read(1))
        done, _ = await asyncio.wait(
            {answering, watching}, timeout=_LONGEST_ANSWER_S, return_when=asyncio.FIRST_COMPLETED
        )
        if answering not in done:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        if watching in done:
            self._early = await watching
        else:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if answering not in done:
            raise _Ended
        return await answering

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._upstream is not None and not self._upstream[0].at_eof():
            return self._upstream
        await self._hang_up()
        port = self._proxy.upstream
        if port is None:
            raise ConnectionRefusedError
        async with asyncio.timeout(_CONNECT_S):
            self._upstream = await asyncio.open_connection("127.0.0.1", port, limit=_HEAD_BYTES)
        return self._upstream

    async def _hang_up(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream[1].close()
            with contextlib.suppress(OSError):
                await upstream[1].wait_closed()


async def _read_request(reader: asyncio.StreamReader, early: bytes) -> Request | None:
    try:
        head = early + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial or early:
            raise
        return None
    first, headers = _parse_head(head)
    body_raw, body = await _read_body(reader, headers, none=True)
    method, path = first.split(b" ")[:2]
    return Request(method.decode(), path.decode().partition("?")[0], headers, body, head + body_raw)


async def _read_answer(reader: asyncio.StreamReader, method: str) -> _Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    first, headers = _parse_head(head)
    status = int(first.split(b" ")[1])
    bodiless = method == "HEAD" or status in (204, 304)
    raw, body = (b"", b"") if bodiless else await _read_body(reader, headers, none=False)
    last = headers.get("connection", "").lower() == "close"
    return _Answer(status, body, head + raw, last)


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str], *, none: bool) -> tuple[bytes, bytes]:
    """Return the body as it came and as it is meant; ``none``: without a length there is none."""
    if "chunked" in headers.get("transfer-encoding", ""):
        raw, body = b"", b""
        while True:
            size = await reader.readuntil(b"\r\n")
            piece = await reader.readexactly(int(size.partition(b";")[0], 16) + 2)
            raw += size + piece
            body += piece[:-2]
            if len(piece) == 2:
                return raw, body
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    else:
        body = b"" if none else await reader.read()
    return body, body


def _parse_head(head: bytes) -> tuple[bytes, dict[str, str]]:
    first, *lines = head.rstrip(b"\r\n").split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    return first, {name.decode().strip().lower(): value.decode().strip() for name, _, value in pairs}


def _made_up(status: int, content_type: str, body: bytes) -> _Answer:
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return _Answer(status, body, head.encode() + body, last=False)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, which is what a reader of a dead line sees."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
