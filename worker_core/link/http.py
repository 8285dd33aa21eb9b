"""Pools of connections to the coordinator: one each for polls, control and bulk, so that none can starve another.

httpx leaks a pool's slot when a request is cancelled. Therefore every exchange runs in a task of its own and goes on
to its end, or its time limit, when the one who waits for it is cancelled; and a pool is replaced after three
transport faults in a row, or when the computer slept and its sockets are dead.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from worker_core.link.address import Address
from worker_core.link.explanations import explain
from worker_core.link.faults import TransportFault
from worker_core.link.lean_httpx import httpx
from worker_core.link.route import BY_SYSTEM

MAX_ANSWER_BYTES = 16 << 20
_FAULTS_BEFORE_FRESH_POOL = 3
_KEEPALIVE_S = 30.0
_CLOSE_S = 5.0

Writer = Callable[[bytes], object]
Sink = Callable[[int, Mapping[str, str]], Writer | None]
"""Given status and headers of an answer, says where its body goes; None keeps it in memory."""


class SinkFailed(Exception):
    """What a sink's writer raised: no fault of the connection."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class Limits:
    """How long a plane waits and how many connections it holds."""

    read_s: float
    connections: int
    connect_s: float = 10.0


@dataclass(frozen=True)
class RawAnswer:
    """What came back, before anyone believes it."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class _Pool:
    client: httpx.AsyncClient
    exchanges: "set[asyncio.Task[RawAnswer]]" = field(default_factory=set["asyncio.Task[RawAnswer]"])
    retired: bool = False

    async def shut(self) -> None:
        """Break off what is open and close every socket; what cancelling leaks is thrown away with the pool."""
        self.retired = True
        exchanges = tuple(self.exchanges)
        for exchange in exchanges:
            exchange.cancel()
        await asyncio.gather(*exchanges, return_exceptions=True)
        await self.client.aclose()


class Plane:
    """One pool of connections with its own time limits."""

    def __init__(self, address: Address, limits: Limits, trust: ssl.SSLContext, proxy: str | None = None) -> None:
        self._address = address
        self._limits = limits
        self._trust = trust
        self._proxy = proxy
        self._pool: _Pool | None = None
        self._closed = False
        self._faults = 0
        self._tasks: set[asyncio.Task[object]] = set()

    async def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        sink: Sink | None = None,
        read_s: float | None = None,
    ) -> RawAnswer:
        """Send one request and return what came back; ``sink`` may take the body piece by piece.

        ``read_s`` waits another time for the answer than the plane does.

        Raises :class:`TransportFault`, or :class:`SinkFailed`. Cancelling the caller does not cancel the exchange.
        """
        if self._closed:
            raise TransportFault("broken", f"this worker speaks to {self._address.host} no more")
        pool = self._pool or self._fresh_pool()
        task = asyncio.create_task(self._exchange(pool, method, path, headers, content, sink, read_s))
        pool.exchanges.add(task)
        self._keep(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise  # the caller was cancelled; the exchange goes on
            raise TransportFault("broken", f"the connection to {self._address.host} was dropped") from None

    def drop_connections(self) -> None:
        """Close every socket now: the computer slept, or the network changed. Open exchanges end with a fault."""
        pool, self._pool = self._pool, None
        if pool is not None:
            self._keep(asyncio.create_task(pool.shut()))

    async def close(self) -> None:
        """Close the sockets for good and wait for the exchanges that end by it."""
        self._closed = True
        self.drop_connections()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=_CLOSE_S)

    def _keep(self, task: "asyncio.Task[RawAnswer] | asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[RawAnswer] | asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # taken here, so that an exchange nobody waits for any more ends in silence

    async def _exchange(
        self,
        pool: _Pool,
        method: str,
        path: str,
        headers: Mapping[str, str],
        content: bytes | None,
        sink: Sink | None,
        read_s: float | None,
    ) -> RawAnswer:
        try:
            timeout = _timeout(self._limits, read_s)
            answer = await _perform(pool.client, method, self._address.url + path, headers, content, sink, timeout)
        except asyncio.CancelledError as error:
            if not pool.retired:
                raise
            raise TransportFault("broken", f"the connection to {self._address.host} was dropped") from error
        except (httpx.HTTPError, httpx.StreamError, OSError, RuntimeError) as error:
            self._count_fault(pool)
            # Not in the loop: a certificate that is not believed is fetched again, to name it.
            fault = await asyncio.to_thread(explain, error, self._address.url, self._address.host, self._proxy)
            raise fault from error
        else:
            self._faults = 0
            return answer
        finally:
            await self._left(pool)

    async def _left(self, pool: _Pool) -> None:
        """Close a retired pool behind the last exchange."""
        task = asyncio.current_task()
        pool.exchanges = {other for other in pool.exchanges if other is not task}
        if pool.retired and not pool.exchanges:
            await pool.client.aclose()

    def _fresh_pool(self) -> _Pool:
        self._pool = _make_pool(self._limits, self._trust, self._proxy)
        return self._pool

    def _count_fault(self, pool: _Pool) -> None:
        self._faults += 1
        if self._faults >= _FAULTS_BEFORE_FRESH_POOL and pool is self._pool:
            self._faults = 0
            pool.retired = True
            self._pool = None


async def _perform(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    content: bytes | None,
    sink: Sink | None,
    timeout: httpx.Timeout,
) -> RawAnswer:
    async with client.stream(method, url, headers=headers, content=content, timeout=timeout) as response:
        body = bytearray()
        with _in_sink():
            write = sink(response.status_code, response.headers) if sink is not None else None
        async for chunk in response.aiter_bytes():
            if write is not None:
                with _in_sink():
                    write(chunk)
                continue
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise TransportFault("not-ours", f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        return RawAnswer(response.status_code, response.headers, bytes(body))


@contextmanager
def _in_sink() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise SinkFailed(error) from error


def make_trust(address: Address) -> ssl.SSLContext:
    """Return the certificates to believe where no setting says more."""
    return BY_SYSTEM.trust(address)


def _make_pool(limits: Limits, trust: ssl.SSLContext, proxy: str | None) -> _Pool:
    transport = httpx.AsyncHTTPTransport(
        verify=trust,
        limits=httpx.Limits(
            max_connections=limits.connections,
            max_keepalive_connections=limits.connections,
            keepalive_expiry=_KEEPALIVE_S,
        ),
        proxy=httpx.Proxy(proxy, ssl_context=trust if proxy.startswith("https:") else None) if proxy else None,
        socket_options=_keepalive_options(),
    )
    return _Pool(httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False))


def _timeout(limits: Limits, read_s: float | None) -> httpx.Timeout:
    read_s = limits.read_s if read_s is None else read_s
    return httpx.Timeout(connect=limits.connect_s, read=read_s, write=limits.read_s, pool=limits.read_s)


def _keepalive_options() -> list[tuple[int, int, int]]:
    """TCP keepalive 15/15/4: a peer that vanished silently is noticed within a minute or so."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        option: int | None = getattr(socket, name, None)
        if option is not None:
            options.append((socket.IPPROTO_TCP, option, value))
    return options
