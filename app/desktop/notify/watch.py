"""Watches the worker for what is worth a notification, keeps quiet when it should, and passes on what was chosen."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QSystemTrayIcon

from app.desktop.control.store import WorkerStore
from app.desktop.notify.told import ToldFile
from app.desktop.prefs import PrefsFile
from app.desktop.presenter.notices import Notice, NoticeAction, Quiet, decide, due
from app.desktop.presenter.waking import Waking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from app.desktop.notify.freedesktop import FreedesktopNotifier

TICK_MS = 60_000
SNOOZE_S = 3600.0
MOST_WAIT_S = 3600.0


class NoticeWatch(QObject):
    """Looks at each news of the worker, and again when something that waits is due."""

    commanded = Signal(str)
    """The command that a chosen button stands for."""

    def __init__(
        self,
        parent: QObject,
        store: WorkerStore,
        prefs: PrefsFile,
        file: Path,
        *,
        start_grace_s: float = 10.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._prefs = prefs
        self._wall = wall
        self._told = ToldFile(file, wall())
        self._waking = Waking(seen=wall(), quiet_until=wall() + start_grace_s)
        self._notifier: FreedesktopNotifier | None = None
        self._tray: QSystemTrayIcon | None = None
        self._last: Notice | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._look)
        self._tick = QTimer(self, interval=TICK_MS)
        self._tick.setTimerType(Qt.TimerType.VeryCoarseTimer)
        self._tick.timeout.connect(self._look)
        self._tick.start()
        store.changed.connect(self._look)
        prefs.changed.connect(self._look)

    def show_through(self, tray: QSystemTrayIcon | None) -> None:
        """Use this icon where the desktop has no better way; None when it is gone."""
        self._tray = tray
        if tray is not None:
            tray.messageClicked.connect(self._on_clicked)

    def close(self) -> None:
        """Stop looking."""
        self._store.changed.disconnect(self._look)
        self._prefs.changed.disconnect(self._look)
        self._tick.stop()
        self._timer.stop()
        if self._notifier is not None:
            self._notifier.close()

    @Slot()
    def _look(self) -> None:
        now = self._wall()
        self._waking = self._waking.at(now)
        status = self._store.situation.live
        if status is None:  # nothing is known, so nothing is over either
            return
        prefs = self._prefs.prefs
        # A clock that was set back makes no snooze longer than it was meant.
        snoozed = min(prefs.snoozed_until, now + SNOOZE_S)
        quiet = Quiet(level=prefs.notices, until=max(self._waking.quiet_until, snoozed))
        outcome = decide(self._told.memory, due(status), quiet, now)
        # Written first: after a crash in between a thing is told once or not at all, and never twice.
        self._told.keep(outcome.memory)
        for notice in outcome.show:
            self._show(notice)
        if outcome.look_again_s is not None:
            self._timer.start(int(min(outcome.look_again_s, MOST_WAIT_S) * 1000) + 50)

    def _show(self, notice: Notice) -> None:
        if not sys.platform.startswith("linux"):
            self._on_unshown(notice)
            return
        if self._notifier is None:
            # Loaded with the first notice: a tray that has nothing to tell carries no D-Bus.
            from app.desktop.notify.freedesktop import FreedesktopNotifier

            self._notifier = FreedesktopNotifier(self)
            self._notifier.chosen.connect(self._on_chosen)
            self._notifier.unshown.connect(self._on_unshown)
        self._notifier.show(notice)

    @Slot(object)
    def _on_unshown(self, notice: Notice) -> None:
        """Show it by Qt's own means, which know no buttons."""
        if self._tray is not None:
            self._last = notice
            icons = QSystemTrayIcon.MessageIcon
            kind = icons.Warning if notice.important else icons.Information
            self._tray.showMessage(notice.headline, notice.text, kind)

    @Slot()
    def _on_clicked(self) -> None:
        if self._last is not None:
            self._on_chosen(self._last, "open")

    @Slot(object, str)
    def _on_chosen(self, notice: Notice, action: NoticeAction) -> None:
        if action == "snooze":
            self._prefs.change(snoozed_until=self._wall() + SNOOZE_S)
        else:
            commands = {"open": notice.opens, "renew": "renew", "give-back": "give-back:1h"}
            if command := commands.get(action):
                self.commanded.emit(command)
