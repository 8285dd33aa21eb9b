"""What was told already, kept in a small file, so that a new start of the tray tells nothing twice."""

import logging
from pathlib import Path

import msgspec
from PySide6.QtCore import QIODevice, QSaveFile

from app.desktop.presenter.notices import Memory
from worker_core.wire.codec import BadMessage, Message, decode

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 64 * 1024


class _Told(Message):
    born: float
    told: dict[str, float] = {}


class ToldFile:
    """Reads the memory once and writes what changes."""

    def __init__(self, path: Path, now: float) -> None:
        self._path = path
        kept = self._read()
        self.memory = Memory(born=now) if kept is None else Memory(born=min(kept.born, now), told=kept.told)
        self._written = self.memory.told.keys() if kept is not None else None

    def keep(self, memory: Memory) -> None:
        """Remember; what is on disk changes only when a thing was told or forgotten."""
        self.memory = memory
        if self._written is not None and memory.told.keys() == self._written:
            return
        self._written = memory.told.keys()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = QSaveFile(str(self._path))
        if file.open(QIODevice.OpenModeFlag.WriteOnly):
            file.write(msgspec.json.encode(_Told(born=memory.born, told=dict(memory.told))))
        if not file.commit():
            log.warning("What was told could not be written to %s: %s", self._path, file.errorString())

    def _read(self) -> _Told | None:
        try:
            with self._path.open("rb") as file:
                return decode(file.read(MAX_FILE_BYTES), _Told)
        except FileNotFoundError:
            return None
        except (OSError, BadMessage) as error:
            log.warning("What was told cannot be read from %s; it is forgotten: %s", self._path, error)
            return None
