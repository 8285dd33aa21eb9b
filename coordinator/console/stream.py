"""GET /v1/stream: one stream of server-sent events that tells a browser what changed.

It carries notices, not data: the page fetches again what a notice names. The stream follows the persisted change
feed, so a browser that comes back with the last id it saw misses nothing; where that is no longer possible it is told
to fetch everything (`resync`). Nothing is queued per client: a slow one reads later, and too far behind it resyncs.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from coordinator.api.auth import current_person, require_person
from coordinator.api.context import Services, services_of
from coordinator.console.assets import BUILD
from coordinator.queue.feed import Change, Subscription
from worker_core.wire.problems import problem

GATHER_S = 0.25
SEND_TIMEOUT_S = 10.0
RECHECK_S = 60.0
MOST_STREAMS = 256
CONTENT_TYPE = "text/event-stream"
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


@dataclass(frozen=True)
class Place:
    """A place in the change feed: the database's epoch and the last sequence number seen."""

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.seq}"


def read_place(text: str | None) -> Place | None:
    """Return the place a browser names, or none where it makes no sense."""
    epoch, colon, seq = (text or "").rpartition(":")
    if not colon or not (seq.isascii() and seq.isdecimal()) or len(seq) > 18:
        return None
    return Place(epoch, int(seq))


def event_text(name: str, place: Place | None, data: object) -> str:
    """Return one event in the stream's format; JSON has no line breaks of its own."""
    identity = f"id: {place}\n" if place else ""
    return f"{identity}event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n"


def gather(changes: list[Change]) -> list[dict[str, object]]:
    """Return one notice for each thing that changed, the newest facts of it last."""
    newest = {(change.subject, change.id): change for change in changes}
    return [
        {"kind": change.subject, "id": change.id, "version": change.seq, "detail": change.detail}
        for change in sorted(newest.values(), key=lambda change: change.seq)
    ]


class EventStream(Response):
    """A streaming response that ends when the client leaves, is too slow, or the coordinator stops."""

    def __init__(self, events: AsyncGenerator[str], stopping: asyncio.Event) -> None:
        super().__init__(headers=HEADERS, media_type=CONTENT_TYPE)
        del self.headers["content-length"]
        self._events = events
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        writing = asyncio.create_task(self._write(send))
        ends: list[asyncio.Task[Any]] = [
            writing,
            asyncio.create_task(_client_left(receive)),
            asyncio.create_task(self._stopping.wait()),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        if writing.done() and not writing.cancelled() and (error := writing.exception()) is not None:
            if isinstance(error, TimeoutError):
                return
            raise error
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send) -> None:
        async with contextlib.aclosing(self._events) as events:
            async for text in events:
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _client_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass
class Watcher:
    """One browser's way through the change feed."""

    request: Request
    services: Services
    account_id: str
    place: Place

    async def events(self, came_back: bool) -> AsyncGenerator[str]:
        """Yield the stream's events until the person is signed out."""
        feed, clock = self.services.queue.feed, self.services.clock
        with self._slot(), feed.subscribe(self.account_id) as subscription:
            yield "retry: 1000\n\n" + event_text("hello", self.place, {"place": str(self.place), "build": BUILD})
            if came_back:
                yield event_text("resync", self.place, {})
            checked = clock.monotonic()
            while True:
                for text in await self._news():
                    yield text
                if clock.monotonic() - checked >= RECHECK_S:
                    checked = clock.monotonic()
                    if await current_person(self.request) is None:
                        yield event_text("signed-out", None, {})
                        return
                if not await self._wait(subscription):
                    yield event_text("ping", None, {"now": clock.now()})

    async def _wait(self, subscription: Subscription) -> bool:
        woken = await subscription.wait(self.services.settings.stream_ping_s)
        if woken:
            await asyncio.sleep(GATHER_S)
        return woken

    async def _news(self) -> list[str]:
        feed, most = self.services.queue.feed, self.services.settings.stream_queue
        changes, too_old = await feed.changes_after(self.account_id, self.place.seq, most + 1)
        if too_old or len(changes) > most:
            self.place = Place(feed.epoch, await feed.last_seq())
            return [event_text("resync", self.place, {})]
        if not changes:
            return []
        self.place = Place(feed.epoch, changes[-1].seq)
        return [event_text("changes", self.place, {"items": gather(changes)})]

    @contextlib.contextmanager
    def _slot(self) -> Generator[None]:
        """Count this stream for as long as it is read, not from when it was asked for."""
        state = self.request.app.state
        state.console_streams = getattr(state, "console_streams", 0) + 1
        try:
            yield
        finally:
            state.console_streams -= 1


async def stream(request: Request) -> Response:
    """Open a stream for a signed-in person, from the last id the browser saw, or from now."""
    person = await require_person(request)
    services = services_of(request)
    if services.stopping.is_set():
        raise problem("draining", "the coordinator is stopping", retry_after_s=2.0)
    if getattr(request.app.state, "console_streams", 0) >= MOST_STREAMS:
        raise problem("rate-limited", f"{MOST_STREAMS} browsers follow already", retry_after_s=30.0)
    if request.method == "HEAD":
        return Response(headers=HEADERS, media_type=CONTENT_TYPE)
    feed = services.queue.feed
    asked = read_place(request.headers.get("last-event-id") or request.query_params.get("cursor"))
    known = asked is not None and asked.epoch == feed.epoch
    place = asked if asked is not None and known else Place(feed.epoch, await feed.last_seq())
    watcher = Watcher(request, services, person.account_id, place)
    return EventStream(watcher.events(came_back=asked is not None and not known), services.stopping)
