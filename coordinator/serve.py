"""``stoker-coordinator serve``: bind the port, say the URL, serve until told to end."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette

from coordinator.accounts.networks import is_loopback
from coordinator.api.context import Services
from coordinator.assembly import build_app, build_services, running, stop
from coordinator.errors import HostError
from coordinator.greeting import greeting
from coordinator.request_heads import guarded_heads
from coordinator.settings import load_settings
from coordinator.storage.data_folder import DataFolder
from coordinator.storage.private_files import write_private
from worker_core.wire.codec import Message, encode

log = logging.getLogger(__name__)

ADMIN_FILE = "admin.json"
KEEP_ALIVE_S = 75
_BACKLOG = 2048


class CannotServe(HostError):
    """The server cannot start as asked; the text says why and what to do."""


class AdminAccess(Message):
    """``<data>/admin.json``: how commands on this host reach the running server."""

    url: str
    key: str
    pid: int


def serve(data: Path, host: str, port: int, public_url: str | None, *, add_account_by: str | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C and return the exit code.

    ``add_account_by`` is the command that makes an account, for a person who is to be greeted.
    """
    check_public_url(host, public_url)
    folder = DataFolder.hold(data)
    try:
        settings = load_settings(folder.path)
        listener = bind(host, port)
        with listener:
            own_url = f"http://{_shown(host)}:{listener.getsockname()[1]}"
            services = build_services(folder, settings, (public_url or own_url).rstrip("/"))
            _write_admin_access(services, own_url, host)
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                return runner.run(_serve(services, listener, add_account_by))
    finally:
        (folder.path / ADMIN_FILE).unlink(missing_ok=True)
        folder.release()


def check_public_url(host: str, public_url: str | None) -> None:
    """Refuse to be reached over plain HTTP from other machines; raises :class:`CannotServe`."""
    if public_url is not None:
        address = urlsplit(public_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise CannotServe(f"--public-url {public_url!r} is not a URL such as https://stoker.example.org")
        if address.scheme == "http" and not is_loopback(address.hostname):
            raise CannotServe("--public-url must begin with https://; plain HTTP is for this machine only")
    if not is_loopback(host) and (public_url is None or not public_url.startswith("https://")):
        raise CannotServe(
            f"--host {host} lets other machines in, which needs HTTPS: put a TLS proxy in front and give its address "
            "with --public-url https://…, or leave --host away to serve this machine only"
        )


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises :class:`CannotServe` when the port is taken."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio turns Nagle's delay off only for sockets that say TCP; otherwise each answer takes 44 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise CannotServe(f"cannot listen on {host}: {error.strerror or error}") from error
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise CannotServe(
            f"cannot listen on {host}:{port}: {error.strerror or error}. Choose another port with --port, "
            "or --port 0 for any free one"
        ) from error
    return listener


class Server(uvicorn.Server):
    """uvicorn, with signals left to us: it would wait for parked polls before it tells anyone of the end."""

    def __init__(self, config: uvicorn.Config, on_up: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_up = on_up

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signal handlers as they are."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        self._on_up()


def server_config(app: Starlette, services: Services) -> uvicorn.Config:
    """Return how uvicorn serves us."""
    return uvicorn.Config(
        app,
        http=guarded_heads(services.settings.body_deadline_s),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Only a coordinator with a proxy in front may believe what that says about the client's address.
        proxy_headers=services.public_url.startswith("https:"),
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, int(services.settings.stop_s) - 1),
    )


async def _serve(services: Services, listener: socket.socket, add_account_by: str | None) -> int:
    received: list[int] = []
    accounts = await services.people.count()

    def say_url() -> None:
        sys.stdout.write(json.dumps({"url": services.public_url}) + "\n")
        sys.stdout.flush()
        if add_account_by is not None:
            sys.stderr.write(greeting(services.public_url, accounts, add_account_by))
            sys.stderr.flush()

    server = Server(server_config(build_app(services), services), say_url)

    def end(number: int) -> None:
        received.append(number)
        # A second signal does not wait for anyone.
        server.force_exit = services.stopping.is_set()
        stop(services)

    async def follow() -> None:
        await services.stopping.wait()
        server.should_exit = True

    with _signals(end):
        async with running(services), asyncio.TaskGroup() as group:
            group.create_task(follow())
            await server.serve(sockets=[listener])
            stop(services)
    if services.failed:
        return 1
    return 130 if signal.SIGINT in received else 0


@contextlib.contextmanager
def _signals(end: Callable[[int], None]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform == "win32":
        numbers.append(signal.SIGBREAK)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        # signal.signal works on every system; the loop's own handlers do not exist on Windows.
        signal.signal(number, lambda received, _: loop.call_soon_threadsafe(end, received))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_admin_access(services: Services, own_url: str, host: str) -> None:
    reachable = own_url
    if host in ("0.0.0.0", "::"):
        reachable = f"http://127.0.0.1:{urlsplit(own_url).port}"
    access = AdminAccess(url=reachable, key=services.admin_key, pid=os.getpid())
    write_private(services.data / ADMIN_FILE, encode(access))


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
