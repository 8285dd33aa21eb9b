"""Where the core writes its log: short lines for a person at the terminal, full ones in a bounded file.

No secret that this process knows reaches either, and no fault of the file or the terminal reaches the core.
"""

import contextlib
import logging
import logging.handlers
import os
import shutil
import sys
import threading
from pathlib import Path
from types import TracebackType

from worker_core.core.terminal_log import TerminalLog
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.paths import Paths
from worker_core.machine.redaction import KNOWN_SECRETS

FILE_NAME = "core.log"
FILE_BYTES = 2 << 20
OLD_FILES = 2
CHILD_LOG_BYTES = 4 << 20
log = logging.getLogger(__name__)
_NOISY = ("httpx", "httpcore", "apscheduler", "asyncio")


def open_logs(paths: Paths, level: str, verbose: bool) -> None:
    """Log to stderr and to ``core.log``; a log folder that cannot be made costs the file, not the worker."""
    terminal = TerminalLog(sys.stderr)
    terminal.setFormatter(_ForPeople(verbose))
    handlers: list[logging.Handler] = [terminal]
    try:
        private_folder(paths.logs)
    except OSError as error:
        unwritable = f"there is no log file: {error}"
    else:
        unwritable = ""
        file = LogFile(paths.logs / FILE_NAME)
        file.setFormatter(_Redacting("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(file)
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if verbose else getattr(logging, level.upper()))
    for handler in handlers:
        root.addHandler(handler)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    sys.excepthook = _log_crash
    threading.excepthook = lambda seen: _log_crash(seen.exc_type, seen.exc_value, seen.exc_traceback)
    if unwritable:
        log.warning("%s", unwritable)


def close_logs() -> None:
    """Flush and close what :func:`open_logs` opened."""
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
    root = logging.getLogger()
    for handler in tuple(root.handlers):
        root.removeHandler(handler)
        handler.close()


def _log_crash(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Send an error that nobody handled where all goes: bounded, and without secrets."""
    log.error("an error nobody handled", exc_info=(kind, error or kind(), trace))


def bound_log(path: Path) -> None:
    """Cut a log that another process of ours appends to, when it has grown too long.

    What it held lies beside it then, unless the disk has no room for that. One that cannot be cut stays as it is.
    """
    with contextlib.suppress(OSError):
        if not path.exists() or path.stat().st_size <= CHILD_LOG_BYTES:
            return
        earlier = path.with_name(f"{path.name}.1")
        try:
            shutil.copyfile(path, earlier)
        except OSError:
            earlier.unlink(missing_ok=True)
        os.truncate(path, 0)


class LogFile(logging.handlers.RotatingFileHandler):
    """A file of bounded size with two older ones beside it. While it cannot be written its lines are lost, and counted.

    It is opened again with each line, so it goes on by itself when the disk has room.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=FILE_BYTES, backupCount=OLD_FILES, encoding="utf-8", delay=True)
        self.lost = 0
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, and before it how many could not be written."""
        if self.lost:
            self._try(logging.makeLogRecord({**record.__dict__, "exc_info": None, "args": None, "msg": self._loss()}))
            if self._failed:
                self.lost += 1
                return
            self.lost = 0
        self._try(record)
        self.lost += self._failed

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Let go of the file, whatever is stuck in its buffer: the next line opens it again."""
        self._failed = True
        stream, self.stream = self.stream, None  # pyright: ignore[reportAttributeAccessIssue]
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]
            try:
                stream.close()
            except (OSError, ValueError):
                return  # the disk takes no more of it; the line is counted as lost

    def _try(self, record: logging.LogRecord) -> None:
        self._failed = False
        super().emit(record)

    def _loss(self) -> str:
        return f"{self.lost} lines could not be written here"


class _Redacting(logging.Formatter):
    """Takes known secrets out of a line and its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return KNOWN_SECRETS.redact(super().format(record))


class _ForPeople(logging.Formatter):
    """Time and words; a traceback only for those who asked for it."""

    def __init__(self, verbose: bool) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        return KNOWN_SECRETS.redact(self._in_words(record))

    def _in_words(self, record: logging.LogRecord) -> str:
        if self._verbose or record.exc_info is None:
            return super().format(record)
        error = record.exc_info[1]
        return f"{self.formatTime(record, self.datefmt)} {record.getMessage()}: {error} (details in {FILE_NAME})"
