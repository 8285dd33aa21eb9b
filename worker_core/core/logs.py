"""Where the core writes its log: short lines for a person at the terminal, full ones in a bounded file."""

import logging
import logging.handlers
import sys

from worker_core.machine.atomic_files import private_folder
from worker_core.machine.paths import Paths

FILE_NAME = "core.log"
_FILE_BYTES = 2 << 20
_OLD_FILES = 2


def open_logs(paths: Paths, level: str, verbose: bool) -> None:
    """Log to stderr and to ``core.log``; an unwritable log folder raises OSError."""
    private_folder(paths.logs)
    file = logging.handlers.RotatingFileHandler(
        paths.logs / FILE_NAME, maxBytes=_FILE_BYTES, backupCount=_OLD_FILES, encoding="utf-8"
    )
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setFormatter(_ForPeople(verbose))
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if verbose else getattr(logging, level.upper()))
    for handler in (file, terminal):
        root.addHandler(handler)
    for noisy in ("httpx", "httpcore", "apscheduler", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def close_logs() -> None:
    """Flush and close what :func:`open_logs` opened."""
    root = logging.getLogger()
    for handler in tuple(root.handlers):
        root.removeHandler(handler)
        handler.close()


class _ForPeople(logging.Formatter):
    """Time and words; a traceback only for those who asked for it."""

    def __init__(self, verbose: bool) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        if self._verbose or record.exc_info is None:
            return super().format(record)
        error = record.exc_info[1]
        return f"{self.formatTime(record, self.datefmt)} {record.getMessage()}: {error} (details in {FILE_NAME})"
