"""The session log: one line of JSON for each thing that happened in an attempt, written as it happens.

Lines are only ever appended, each with one call to the system. A process that is killed therefore loses no line that
was written, and at most tears the one it was writing; the next process cuts that off and goes on behind it.
"""

import os
import sys
import time
from pathlib import Path

import msgspec

from worker_core.training.files import JobIdentity
from worker_core.wire.codec import encode
from worker_core.wire.events import CheckpointSaved, Status
from worker_core.wire.frames import MAX_FRAME_BYTES, FrameBody

SESSION_LOG = "session.jsonl"
SCHEMA = "stoker.session-log/1"
MAX_LOG_BYTES = 64 << 20


class SessionLog:
    """Appends what a job tells the core to a file of its own. Not for several threads at once."""

    def __init__(self, path: Path, identity: JobIdentity, *, most_bytes: int = MAX_LOG_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._most_bytes = most_bytes
        self._phase = ""
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        self._size = _cut_torn_line(self._file)
        opened = {"t": "opened", "schema": SCHEMA, "ts": time.time(), **msgspec.to_builtins(identity)}
        self._append(encode(opened))

    def add(self, body: FrameBody) -> None:
        """Append one line; of the statuses, which come every second, only those that begin a phase."""
        if isinstance(body, Status):
            if body.phase == self._phase:
                return
            self._phase = body.phase
        self._append(encode(body))
        if isinstance(body, CheckpointSaved) and self._file is not None:
            # Also after a power cut the log reaches as far as the checkpoint that the job goes on from.
            os.fsync(self._file)

    def close(self) -> None:
        """End the log; what is added later goes nowhere."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, line: bytes) -> None:
        if self._file is None:
            return
        if self._size + len(line) >= self._most_bytes:
            self._end(f"it has reached {self._most_bytes:,} bytes")
            return
        try:
            self._size += os.write(self._file, line + b"\n")
        except OSError as error:
            # The log is a by-product: a training that can go on without it does.
            self._end(f"it cannot be written ({error.strerror or error})")

    def _end(self, why: str) -> None:
        self.close()
        print(f"the session log {self.path.name} ends here: {why}", file=sys.stderr)  # noqa: T201


def _cut_torn_line(file: int) -> int:
    """Drop what stands behind the last line end, go there, and return the size that is left."""
    size = os.lseek(file, 0, os.SEEK_END)
    start = max(0, size - MAX_FRAME_BYTES)
    os.lseek(file, start, os.SEEK_SET)
    tail = os.read(file, size - start)
    whole = start + tail.rfind(b"\n") + 1
    os.ftruncate(file, whole)
    return os.lseek(file, whole, os.SEEK_SET)
