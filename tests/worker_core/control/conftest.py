"""Fixtures of the control channel: a server with operations that answer at once, and raw lines to it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from worker_core.control.endpoint import read_endpoint
from worker_core.control.messages import Request
from worker_core.control.server import ControlRefused, ControlServer
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.paths import Paths, find_paths
from worker_core.wire.codec import encode
from worker_core.wire.status import WorkerStatus


class Answers:
    """Operations of a core that does not exist: counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.state = "available"
        self.hold = asyncio.Event()
        self.hold.set()

    def status(self) -> WorkerStatus:
        return WorkerStatus(state=self.state)

    async def perform(self, request: Request) -> object:
        self.asked.append(request)
        await self.hold.wait()
        if request.op == "unpair":
            raise ControlRefused("not-paired", "this worker is not paired")
        if request.op == "quit":
            raise RuntimeError("a fault inside")
        if request.op == "attempts":
            return {"attempts": ["x" * 1000] * 400}
        return self.status() if request.op == "status" else {"count": len(self.asked)}


class RawLine:
    """A line to the server without any manners."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, data: bytes | Any) -> None:
        self.writer.write(data if isinstance(data, bytes) else encode(data) + b"\n")
        await self.writer.drain()

    async def hear(self, timeout_s: float = 5.0) -> bytes:
        async with asyncio.timeout(timeout_s):
            return await self.reader.readline()

    async def closed(self, timeout_s: float = 5.0) -> bool:
        """Whether the server closes, and has said nothing."""
        async with asyncio.timeout(timeout_s):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = find_paths(str(tmp_path / "home"))
    private_folder(found.data)
    return found


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
async def server(paths: Paths, answers: Answers, request: pytest.FixtureRequest) -> AsyncIterator[ControlServer]:
    """The server; as Windows has it where a test asks for ``tcp``."""
    started = ControlServer(paths, answers, "1.2.3", getattr(request, "param", "unix"))
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
async def connect(paths: Paths, server: ControlServer) -> AsyncIterator[Any]:
    opened: list[RawLine] = []

    async def open_line() -> RawLine:
        endpoint = read_endpoint(paths)
        assert endpoint is not None
        if endpoint.transport == "tcp":
            line = RawLine(*await asyncio.open_connection(*endpoint.address.split(":")))
        else:
            line = RawLine(*await asyncio.open_unix_connection(endpoint.address))
        opened.append(line)
        return line

    yield open_line
    for line in opened:
        line.writer.close()
