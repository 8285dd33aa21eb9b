"""What a person chose about the desktop itself: remembered answers, colours, notices. Nothing about the worker."""

import logging
from pathlib import Path
from typing import Literal

import msgspec
from PySide6.QtCore import QIODevice, QObject, QSaveFile, Signal

from app.desktop.presenter.quitting import QuitChoice
from worker_core.wire.codec import BadMessage, Message, decode

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 64 * 1024
NoticeLevel = Literal["all", "important", "off"]


class Prefs(Message):
    """Content of ``desktop.json``."""

    quit_choice: QuitChoice | None = None
    """What Quit does while a job runs, when it shall not ask."""
    close_choice: Literal["keep", "quit"] | None = None
    """What closing the last window does where there is no tray, when it shall not ask."""
    scheme: Literal["system", "light", "dark"] = "system"
    language: str = ""
    """``de``, ``en`` …; empty follows the system."""
    notices: NoticeLevel = "all"
    """Which notifications are shown; ``important`` leaves out what needs nobody."""
    snoozed_until: float = 0.0
    """No notification is shown before this moment (seconds since 1970)."""
    autostart: bool = False
    """Whether the desktop starts with the session of its person."""


class PrefsFile(QObject):
    """Reads the preferences once, writes each change, and tells of it."""

    changed = Signal()

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self.prefs = _read(path)

    def change(self, **changes: object) -> None:
        """Change some preferences; one that cannot be written lasts until the desktop ends."""
        self.prefs = msgspec.structs.replace(self.prefs, **changes)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = QSaveFile(str(self._path))
        if file.open(QIODevice.OpenModeFlag.WriteOnly):
            file.write(msgspec.json.format(msgspec.json.encode(self.prefs)) + b"\n")
        if not file.commit():
            log.warning("The preferences in %s could not be written: %s", self._path, file.errorString())
        self.changed.emit()


def _read(path: Path) -> Prefs:
    try:
        with path.open("rb") as file:
            return decode(file.read(MAX_FILE_BYTES), Prefs)
    except FileNotFoundError:
        return Prefs()
    except (OSError, BadMessage) as error:
        log.warning("The preferences in %s cannot be read, the defaults are used: %s", path, error)
        return Prefs()
