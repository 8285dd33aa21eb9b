"""A deadline and a size for the heads of requests, which uvicorn waits for without end.

A client that opens a connection and says nothing, or sends its headers a byte at a time (slow loris), would hold a
connection for ever; one whose headers never end would fill the memory.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10


class GuardedHeads(HttpToolsProtocol):
    """uvicorn's protocol; a head that is late or too long closes the connection without an answer."""

    head_s = 30.0
    """Seconds for the first byte of a new connection to arrive, and from any request's first byte to its head's end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_due: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; count it while a head is not complete."""
        super().data_received(data)
        if self._head_due is None:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """The first byte of a request is here."""
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        """The head is here; its body has a deadline of its own (:mod:`coordinator.api.bodies`)."""
        self._head_came()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head_came()
        self._head_bytes = 0
        self._head_due = self.loop.call_later(self.head_s, self.transport.abort)

    def _head_came(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None


def guarded_heads(head_s: float) -> type[GuardedHeads]:
    """Return the protocol with this deadline."""
    return type("GuardedHeads", (GuardedHeads,), {"head_s": head_s})
