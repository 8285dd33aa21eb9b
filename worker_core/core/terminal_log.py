"""The terminal as a place for log lines: who holds it up, by Ctrl-S or by not reading a pipe, holds up no worker."""

import io
import logging
import threading
from collections import deque
from typing import TextIO

_MAX_WAITING_LINES = 1000
_LAST_LINES_S = 1.0


class TerminalLog(logging.Handler):
    """Writes lines in a thread of its own. While the terminal takes none they wait; past a bound they are counted.

    The terminal, or the file of whoever started the core, may be full, or gone.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self.lost = 0
        self._stream = stream
        self._raw = _unlocked(stream)
        self._waiting: deque[str] = deque()
        self._news = threading.Condition()
        self._closing = False
        # A daemon: a write that never returns must not keep the process from its end.
        self._writer = threading.Thread(target=self._write_all, name="terminal log", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put one line where the writing thread finds it."""
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with self._news:
            if len(self._waiting) >= _MAX_WAITING_LINES:
                self.lost += 1
                return
            if self.lost:
                self._waiting.append(f"{self.lost} lines could not be shown here")
                self.lost = 0
            self._waiting.append(line)
            self._news.notify()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Go on: there is no better place to say that nobody reads."""

    def close(self) -> None:
        """Wait a moment for the last lines."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._writer.join(_LAST_LINES_S)
        super().close()

    def _write_all(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                line = self._waiting.popleft()
            try:
                self._write(f"{line}\n")
            except (OSError, ValueError):
                continue

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        if self._raw is None:
            self._stream.write(text)
            self._stream.flush()
            return
        rest = text.encode(self._stream.encoding or "utf-8", "backslashreplace")
        while rest:
            rest = rest[self._raw.write(rest) or len(rest) :]


def _unlocked(stream: TextIO | None) -> io.RawIOBase | None:
    """Open the file under a stream anew, without the lock that Python wants to have when the process ends."""
    if stream is None:
        return None
    try:
        return open(stream.fileno(), "wb", buffering=0, closefd=False)
    except (OSError, ValueError):
        return None
