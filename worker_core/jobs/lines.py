"""Turns a job's raw output into lines that are worth keeping: bounded in length, in number, and without progress bars.

Pure: bytes and times go in, lines come out.
"""

import re

from worker_core.machine.redaction import Redactor
from worker_core.wire.events import MAX_LINE_BYTES

LINES_PER_SECOND = 200
PROGRESS_EVERY_S = 0.5
_BREAK = re.compile(rb"[\r\n]")


class LineSplitter:
    """Cuts one stream into lines.

    Text that ends with a carriage return is a progress bar that will be drawn again: of these at most two a second
    come out. Lines above 8 KiB come out in pieces, which end between two letters and never inside a known secret.
    """

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = secrets
        self._text = bytearray()
        self._returned = False
        """Whether ``_text`` ended with a carriage return that may still belong to a line end."""
        self._shown_at = -PROGRESS_EVERY_S

    def feed(self, data: bytes, now: float) -> list[str]:
        """Add output read at ``now`` and return the lines that are complete."""
        lines: list[str] = []
        start = 0
        for found in _BREAK.finditer(data):
            self._add(data[start : found.start()], lines, now)
            start = found.end()
            if found.group() == b"\r":
                self._end_progress(lines, now)
                self._returned = True
            else:
                lines += self._take()
        self._add(data[start:], lines, now)
        return lines

    def close(self) -> list[str]:
        """Return what is left when the stream has ended."""
        return self._take() if self._text else []

    def _add(self, piece: bytes, lines: list[str], now: float) -> None:
        if not piece:
            return
        self._end_progress(lines, now)
        self._text += piece
        if len(self._text) > MAX_LINE_BYTES + self._secrets.longest:
            # What was read beyond a piece shows whether a secret begins at its end.
            pieces, rest = _cut(self._secrets.redact_bytes(bytes(self._text)), keep=self._secrets.longest)
            lines += map(_decode, pieces)
            self._text = bytearray(rest)

    def _end_progress(self, lines: list[str], now: float) -> None:
        if not self._returned:
            return
        text = self._take()
        if text != [""] and now - self._shown_at >= PROGRESS_EVERY_S:
            self._shown_at = now
            lines += text

    def _take(self) -> list[str]:
        raw = bytes(self._text)
        self._text.clear()
        self._returned = False
        if len(raw) <= MAX_LINE_BYTES:
            return [_decode(raw)]
        pieces, rest = _cut(self._secrets.redact_bytes(raw), keep=0)
        return [_decode(piece) for piece in (*pieces, rest)]


class LineRate:
    """Admits at most :data:`LINES_PER_SECOND` lines a second and counts the others."""

    def __init__(self) -> None:
        self._second = -1
        self._admitted = 0
        self._dropped = 0

    def admit(self, now: float) -> bool:
        """Tell whether a line at ``now`` may pass."""
        if int(now) != self._second:
            self._second = int(now)
            self._admitted = 0
        if self._admitted >= LINES_PER_SECOND:
            self._dropped += 1
            return False
        self._admitted += 1
        return True

    def take_dropped(self) -> int:
        """Return how many lines were refused since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped


def _cut(raw: bytes, keep: int) -> tuple[list[bytes], bytes]:
    """Return the pieces of a long line, and its rest of at most ``keep`` bytes more than one piece."""
    pieces: list[bytes] = []
    start = 0
    while len(raw) - start > MAX_LINE_BYTES + keep:
        end = start + MAX_LINE_BYTES
        # Back to the beginning of a letter, unless these bytes are no UTF-8 at all.
        end = next((place for place in range(end, end - 4, -1) if raw[place] & 0xC0 != 0x80), end)
        pieces.append(raw[start:end])
        start = end
    return pieces, raw[start:]


def _decode(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    # A replacement character takes more room than the byte it stands for.
    return text if len(text) * 3 <= MAX_LINE_BYTES else text.encode()[:MAX_LINE_BYTES].decode(errors="ignore")
