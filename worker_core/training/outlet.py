"""What a job prints, on its way to the core: lost when the core is gone, and then no error of the job."""

import io
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Outlet(io.FileIO):
    """A pipe that may lose its reader: a job whose core ended shall save its work, not fail for a line it prints."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write all of ``data``; without a reader it goes nowhere."""
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left:
                left = left[super().write(left) :]
        except BrokenPipeError:
            return size
        return size


def open_outlet(descriptor: int) -> TextIO:
    """Return a stream that writes each line to ``descriptor`` when it is printed, whatever letters are in it."""
    pipe = _Outlet(descriptor, "wb", closefd=False)
    return io.TextIOWrapper(pipe, encoding="utf-8", errors="backslashreplace", line_buffering=True, write_through=True)
