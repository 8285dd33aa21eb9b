"""The coordinator on this computer: a child of the core, there whenever the core is, on a port chosen once."""

import asyncio
import logging
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from worker_core.core.embedded_child import end_left_child, forget_child, record_child
from worker_core.core.logs import bound_log
from worker_core.link.address import Address
from worker_core.link.backoff import Backoff, keep_going
from worker_core.link.faults import TransportFault
from worker_core.link.http import Limits, Plane, make_trust
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.child_exit import wait_exit
from worker_core.machine.spawn import coordinator_command, run_briefly, spawn
from worker_core.wire.codec import BadMessage, Message, decode
from worker_core.wire.signed import GENERATION_HEADER

log = logging.getLogger(__name__)

LOG_NAME = "coordinator.log"
_START_S = 30.0
_HEALTHY_S = 30.0
_STOP_S = 8.0
_LOOK_AGAIN_S = 10.0
_RETRY_CAP_S = 60.0


class EmbeddedFailed(Exception):
    """The coordinator on this computer cannot do what was asked; the text is for a person."""


class _Announcement(Message):
    url: str


class EmbeddedCoordinator:
    """Keeps a coordinator running in ``data``; ``remember`` gets its port and the account made there, as they come."""

    def __init__(self, data: Path, port: int, account: str, remember: Callable[[int, str], None]) -> None:
        self.url: str | None = None
        self._data = data
        self._port = port
        self._account = account
        self._remember = remember
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._up = asyncio.Event()

    def start(self) -> None:
        """Start it and keep it running."""
        if self._task is None:
            supervising = keep_going(self._supervise, "the coordinator on this computer")
            self._task = asyncio.create_task(supervising, name="embedded coordinator")

    async def ready(self) -> str:
        """Return its address once it listens; raises :class:`EmbeddedFailed`."""
        self.start()
        try:
            async with asyncio.timeout(_START_S):
                await self._up.wait()
        except TimeoutError as error:
            text = f"the coordinator on this computer does not start; see {self._data / LOG_NAME}"
            raise EmbeddedFailed(text) from error
        assert self.url is not None
        return self.url

    async def add_account(self, email: str, password: str) -> None:
        """Make an account there, once; the password goes through a pipe and stands in no command line."""
        if email == self._account:
            return
        command = coordinator_command("account", "add", email, "--password-stdin", "--data", str(self._data))
        done = await asyncio.to_thread(run_briefly, command, input=password.encode() + b"\n", timeout_s=_START_S)
        if done.code != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            raise EmbeddedFailed(said[-1] if said else "the account could not be made")
        self._account = email
        self._remember(self._port, email)

    async def stop(self) -> None:
        """End it, as the core ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                async with asyncio.timeout(_STOP_S):
                    await wait_exit(process)
            except TimeoutError:
                process.kill()
                await wait_exit(process)
        forget_child(self._data)

    async def _supervise(self) -> None:
        backoff = Backoff(_RETRY_CAP_S)
        await end_left_child(self._data)
        while True:
            if await self._answers_already():
                await asyncio.sleep(_LOOK_AGAIN_S)  # a person started it in this folder; it is not ours to end
                continue
            loop = asyncio.get_running_loop()
            launched = loop.time()
            try:
                process = await self._launch()
            except (OSError, EmbeddedFailed) as error:
                log.warning("the coordinator on this computer did not start: %s", error)
            else:
                log.warning("the coordinator on this computer ended with %s", await wait_exit(process))
            if loop.time() - launched > _HEALTHY_S:
                backoff.works()
            self._up.clear()
            await asyncio.sleep(backoff.next_wait())

    async def _launch(self) -> subprocess.Popen[bytes]:
        private_folder(self._data)
        command = coordinator_command("serve", "--data", str(self._data), "--port", str(self._port), "--json")
        with _open_log(self._data / LOG_NAME) as log_file:
            process = spawn(command, stdout=subprocess.PIPE, stderr=log_file)
        self._process = process
        record_child(self._data, process.pid)
        assert process.stdout is not None
        line = await _first_line(process.stdout)
        try:
            url = decode(line, _Announcement).url
        except BadMessage as error:
            process.kill()
            await wait_exit(process)
            said = f"it said {line[:200]!r} instead of its address" if line else "it ended before it listened"
            raise EmbeddedFailed(f"{said}; see {self._data / LOG_NAME}") from error
        self._announce(url)
        return process

    async def _answers_already(self) -> bool:
        if self._port == 0:
            return False
        address = Address.parse(f"http://127.0.0.1:{self._port}")
        plane = Plane(address, Limits(read_s=5.0, connections=1), make_trust(address))
        try:
            answer = await plane.exchange("GET", "/v1/meta", {})
        except TransportFault:
            return False
        finally:
            await plane.close()
        if GENERATION_HEADER not in answer.headers:
            return False
        self._announce(address.url)
        return True

    def _announce(self, url: str) -> None:
        self.url = url
        port = int(url.rpartition(":")[2].strip("/"))
        if port != self._port:
            self._port = port
            self._remember(port, self._account)
        self._up.set()


def _open_log(path: Path) -> IO[bytes]:
    """Open the log of the child: always to append, so that it may be cut while the child writes."""
    bound_log(path)
    return path.open("ab")


async def _first_line(stream: IO[bytes]) -> bytes:
    """Return the first line of a child's output and swallow the rest, so that the child never waits for us."""
    loop = asyncio.get_running_loop()
    first: asyncio.Future[bytes] = loop.create_future()

    def settle(line: bytes) -> None:
        if not first.done():
            first.set_result(line)

    def read() -> None:
        with stream:
            loop.call_soon_threadsafe(settle, stream.readline(4096))
            while stream.read(4096):
                pass

    threading.Thread(target=read, name="embedded coordinator's output", daemon=True).start()
    try:
        async with asyncio.timeout(_START_S):
            return await first
    except TimeoutError:
        return b""
