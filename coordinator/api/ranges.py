"""One range of bytes of a file (RFC 9110 §14), as downloads and resumed downloads ask for it."""

import re

from starlette.exceptions import HTTPException

_ONE_RANGE = re.compile(r"^bytes=(\d*)-(\d*)$")


def read_range_header(header: str | None, size: int) -> tuple[int, int]:
    """Return start and end (exclusive) of what to send: the whole file, or the range asked for.

    Raises 416 for a range that is not in the file. Lists of ranges are answered with the whole file, as is allowed.
    """
    match = _ONE_RANGE.match(header.replace(" ", "")) if header else None
    if match is None or match.group(0) == "bytes=-":
        return 0, size
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size
    start, end = int(first), min(size, int(last) + 1) if last else size
    if start >= size and not (start == size == 0):
        raise HTTPException(416, f"the file has {size} bytes", {"Content-Range": f"bytes */{size}"})
    return start, max(start, end)


def range_headers(start: int, end: int, size: int, partial: bool) -> dict[str, str]:
    """Return the headers that go with a range, or with a whole file."""
    headers = {"Content-Length": str(end - start), "Accept-Ranges": "bytes"}
    if partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return headers
