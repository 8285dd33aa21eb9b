"""One range of bytes of a file (RFC 9110 §14), as downloads and resumed downloads ask for it."""

import re
from dataclasses import dataclass

from starlette.exceptions import HTTPException

_ONE_RANGE = re.compile(r"^bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))$", re.ASCII)


@dataclass(frozen=True)
class Slice:
    """What of a file is sent, ``end`` excluded, and the status and headers that say so."""

    start: int
    end: int
    status: int
    headers: dict[str, str]


def slice_for(header: str | None, size: int) -> Slice:
    """Return what a Range header asks for of a file of this size.

    A range that is not in the file raises 416. Anything else than one range of bytes is ignored, as the RFC says:
    the whole file is sent.
    """
    match = _ONE_RANGE.match(header.replace(" ", "")) if header else None
    if match is None:
        return _whole(size)
    first, last, final = match.groups()
    if final is not None:
        start, end = max(0, size - int(final)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return _whole(size)
    if start >= end:
        raise HTTPException(416, f"the file has {size} bytes", {"Content-Range": f"bytes */{size}"})
    return Slice(start, end, 206, {**_sized(end - start), "Content-Range": f"bytes {start}-{end - 1}/{size}"})


def _whole(size: int) -> Slice:
    return Slice(0, size, 200, _sized(size))


def _sized(length: int) -> dict[str, str]:
    return {"Content-Length": str(length), "Accept-Ranges": "bytes"}
