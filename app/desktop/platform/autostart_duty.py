"""Keeps the system's autostart as a person chose it: looked at after each start, and at each change of the choice."""

import logging

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.desktop.prefs import PrefsFile
from worker_core.machine.paths import Paths

log = logging.getLogger(__name__)

FIRST_LOOK_MS = 3000
"""After the icon is there; a start with the session has better things to do."""


class AutostartDuty(QObject):
    """Corrects what stands in the system, and takes note of a person who switched it off there."""

    failed = Signal(str, str)
    """A headline and a sentence, after a change that a person asked for."""

    def __init__(self, parent: QObject, paths: Paths, prefs: PrefsFile) -> None:
        super().__init__(parent)
        self._paths = paths
        self._prefs = prefs
        self._wanted: bool | None = None
        """What was settled last; None before the first look."""
        prefs.changed.connect(self._on_prefs)

    def start(self) -> None:
        """Look soon, and correct a path that is no longer ours."""
        QTimer.singleShot(FIRST_LOOK_MS, self, self._look)

    @Slot()
    def _look(self) -> None:
        """An entry that nobody here asked for is left alone: it may be a person's own."""
        if self._wanted is None and self._prefs.prefs.autostart:
            self._settle(True)
        self._wanted = self._prefs.prefs.autostart

    @Slot()
    def _on_prefs(self) -> None:
        wanted = self._prefs.prefs.autostart
        if wanted != self._wanted and (error := self._settle(wanted)) is not None:
            self.failed.emit("Starting with the computer could not be changed", f"{error}.")

    def _settle(self, wanted: bool) -> OSError | None:
        # Loaded when it is used: a tray that rests needs none of it.
        from app.desktop.platform.autostart import entry_of, settle
        from app.desktop.platform.start import start_of

        asked_now = self._wanted is not None
        self._wanted = wanted
        entry = entry_of(start_of(self._paths))
        try:
            if wanted and asked_now and entry.is_off():
                entry.remove()  # a person wants it again, whatever the system's settings said before
            found = settle(entry, wanted=wanted)
        except OSError as error:
            log.warning("Autostart could not be settled: %s", error)
            return error
        if found in ("written", "removed", "switched-off"):
            log.info("Autostart: %s.", found)
        if found == "switched-off":
            self._wanted = False
            self._prefs.change(autostart=False)
        return None
