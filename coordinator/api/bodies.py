"""Request bodies in, answers out: every limit on size and time of what a client sends stands here."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from coordinator.api.context import services_of
from worker_core.wire.codec import BadMessage, decode, encode
from worker_core.wire.problems import problem

T = TypeVar("T")

FROM_STRANGERS_BYTES = 64 << 10
"""How much somebody may send who has not yet proved to be anybody we know."""

REPORT_BYTES = 256 << 10
"""How much a worker may say about itself at once; it is kept and shown."""

_GZIP = 31
"""zlib's window bits for a gzip wrapper."""


async def read_message(request: Request, kind: type[T], *, max_bytes: int | None = None) -> T:
    """Return the JSON body as ``kind``; an empty body counts as ``{}``. Raises problems that say what is wrong."""
    body = await read_bytes(request, max_bytes)
    return parse_message(body, kind)


def parse_message(body: bytes, kind: type[T]) -> T:
    """Return JSON bytes as ``kind``, or raise ``invalid-request`` with the field at fault."""
    try:
        return decode(body or b"{}", kind)
    except BadMessage as error:
        raise problem("invalid-request", f"the body is not what this address takes: {error}") from error


async def read_bytes(request: Request, max_bytes: int | None = None) -> bytes:
    """Return the whole body, unpacked; more than the limit is ``too-large``, and the sender has 30 s."""
    limit = max_bytes or services_of(request).settings.body_max_bytes
    parts = [part async for part in stream_body(request, limit)]
    return b"".join(parts)


async def stream_body(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, unpacked, at most ``max_bytes`` in all."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise problem("invalid-request", f"Content-Encoding {encoding!r} is not known; use gzip or none")
    if encoding == "identity" and int(request.headers.get("content-length") or 0) > max_bytes:
        raise _too_large(max_bytes)
    parts = _received(request)
    taken = 0
    async for part in _unpacked(parts, max_bytes) if encoding == "gzip" else parts:
        taken += len(part)
        if taken > max_bytes:
            raise _too_large(max_bytes)
        yield part


def answer(message: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(encode(message), status, headers, "application/json")


def no_content(headers: Mapping[str, str] | None = None) -> Response:
    """Return a 204."""
    return Response(status_code=204, headers=headers)


async def _received(request: Request) -> AsyncIterator[bytes]:
    deadline_s = services_of(request).settings.body_deadline_s
    stream = request.stream()
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while True:
        try:
            async with asyncio.timeout_at(end):
                part = await anext(stream, None)
        except TimeoutError as error:
            raise problem("invalid-request", f"the body did not arrive within {deadline_s:g} s") from error
        if part is None:
            return
        yield part


async def _unpacked(parts: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[bytes]:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        async for part in parts:
            waiting = part
            while waiting and not unpacker.eof:
                # Never more at once than one byte over the limit: a bomb is found out before it is unpacked.
                yield unpacker.decompress(waiting, max_bytes + 1)
                waiting = unpacker.unconsumed_tail
    except zlib.error as error:
        raise problem("invalid-request", f"the body is not valid gzip: {error}") from error
    if not unpacker.eof:
        raise problem("invalid-request", "the gzip body ends too early")


def _too_large(max_bytes: int) -> Exception:
    return problem("too-large", f"the body may have at most {max_bytes} bytes (unpacked)")
