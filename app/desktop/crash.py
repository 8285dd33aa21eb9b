"""Keeps what is known about a crash, so that the next start can show it."""

import faulthandler
import logging
import os
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import IO

from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

from worker_core.machine.redaction import KNOWN_SECRETS

MAX_LOG_BYTES = 1024 * 1024
MAX_REPORT_BYTES = 64 * 1024
MAX_RECORDED = 20

log = logging.getLogger(__name__)

_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


class BoundedLog(logging.Handler):
    """Writes to a file; a full one becomes ``….1``. The standard library's own would load pickle into the tray."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._file = path.open("a", encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        try:
            if self._file.closed:  # the disk was full when a new one was due
                self._file = self._path.open("a", encoding="utf-8")
            if self._file.tell() > MAX_LOG_BYTES:
                self._file.close()
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
                self._file = self._path.open("a", encoding="utf-8")
            self._file.write(f"{KNOWN_SECRETS.redact(self.format(record))}\n")
            self._file.flush()
        except (OSError, ValueError):
            self.handleError(record)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
        super().close()


def start_log(folder: Path) -> None:
    """Send the log to a bounded file; a windowed program may have no stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    file = BoundedLog(folder / "desktop.log")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(file)
    logging.getLogger().setLevel(logging.INFO)
    qInstallMessageHandler(_on_qt_message)


def _on_qt_message(kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
    logging.getLogger("qt").log(_LEVELS.get(kind, logging.WARNING), "%s", text)


class CrashRecorder:
    """Writes exceptions nobody caught, and fatal faults, to a file; never opens a window by itself."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "desktop-crash.log"
        self._untold = folder / "desktop-crash-untold.log"
        self.previous = self._take_previous()
        """What earlier runs left behind and nobody was told yet; empty after runs without a crash."""
        self._seen: set[str] = set()
        self._file: IO[str] = self._path.open("a", encoding="utf-8")
        faulthandler.enable(self._file)
        sys.excepthook = self._on_exception

    def close(self) -> None:
        """Stop recording; a run without a crash leaves no file."""
        sys.excepthook = sys.__excepthook__
        faulthandler.disable()
        self._file.close()
        if not self._seen:
            self._path.unlink(missing_ok=True)

    def forget_previous(self) -> None:
        """Forget the earlier report, because a person was told of it."""
        self.previous = ""
        self._untold.unlink(missing_ok=True)

    def _take_previous(self) -> str:
        """Put the report of the last run aside, so that it outlives runs in which nobody looks."""
        if self._path.exists() and self._path.stat().st_size:
            self._path.replace(self._untold)
        try:
            with self._untold.open("rb") as file:
                return file.read(MAX_REPORT_BYTES).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return ""

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = KNOWN_SECRETS.redact("".join(traceback.format_exception(kind, error, trace)))
        log.error("An error nobody handled:\n%s", text)
        if text not in self._seen and len(self._seen) < MAX_RECORDED:
            self._seen.add(text)
            self._file.write(text)
            self._file.flush()
            self._tell(error, text)

    def _tell(self, error: BaseException, text: str) -> None:
        """Say it where stoker was started, if that place can still be written to."""
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
            shown = text if os.environ.get("STOKER_DEBUG") else KNOWN_SECRETS.redact(f"{type(error).__name__}: {error}")
            sys.stderr.write(f"stoker app: an error nobody handled; details are in {self._path}. {shown}\n")
