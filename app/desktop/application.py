"""Builds the desktop in order, keeps its parts alive, and takes them down in reverse."""

import platform

from PySide6.QtCore import QObject, QTimer, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QSessionManager
from PySide6.QtWidgets import QApplication, QWidget

from app.desktop.commands import Commands
from app.desktop.control.client import ControlClient
from app.desktop.control.metric_source import MetricSource
from app.desktop.control.store import WorkerStore
from app.desktop.control.supervisor import Supervisor
from app.desktop.crash import CrashRecorder
from app.desktop.leaving import Leaving
from app.desktop.prefs import PrefsFile
from app.desktop.presenter.menu import menu
from app.desktop.presenter.status import show
from app.desktop.single_instance import SingleInstance
from app.desktop.tray.host import TrayHost
from app.desktop.tray.icon import TrayIcon
from app.desktop.tray.icons import app_icon
from app.desktop.tray.menu_binder import MenuBinder
from app.desktop.unix_signals import EndSignals
from app.desktop.windows import theme
from app.desktop.windows.dialogs import Choice, Notice, Question
from app.desktop.windows.pairing import PairingWindow
from app.desktop.windows.status import StatusWindow
from worker_core.machine.paths import Paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from app.desktop.windows.metrics import MetricsWindow


class Desktop(QObject):
    """The running desktop."""

    def __init__(self, app: QApplication, paths: Paths, instance: SingleInstance, *, background: bool) -> None:
        super().__init__(app)
        self._app = app
        self._background = background
        self._prefs = PrefsFile(paths.config / "desktop.json")
        self._crash = CrashRecorder(paths.logs)
        self._signals = EndSignals(self)
        self._instance = instance
        self._client = ControlClient(self)
        self.store = WorkerStore(self)
        self._supervisor = Supervisor(self, paths, self._client)
        self._source = MetricSource(self, self._client, self.store)
        self.commands = Commands(self, self._client, self.store)
        self._leaving = Leaving(self, self._client, self.store, self._prefs)
        self.pairing_window: PairingWindow | None = None
        self.metrics_window: MetricsWindow | None = None
        self._apply_theme()
        self.binder = MenuBinder(self)
        self._tray = TrayIcon(self, self.binder.menu)
        self._host = TrayHost(self)
        self.status_window = StatusWindow(self.store)
        self._connect()

    def _connect(self) -> None:
        self._signals.asked.connect(self._exit)
        self._instance.raise_asked.connect(self._show_status)
        self._supervisor.link_changed.connect(self.store.set_link)
        self._client.snapshot_arrived.connect(self.store.take_snapshot)
        self.store.changed.connect(self._refresh)
        self._host.appeared.connect(self._tray.create)
        self._host.missing.connect(self._show_status)
        self._tray.opened.connect(self._show_status)
        self.binder.commanded.connect(self.commands.give)
        self.binder.about_to_show.connect(self._refresh)
        self.status_window.commanded.connect(self.commands.give)
        self.status_window.closing.connect(self._on_status_closing)
        self.status_window.ask_again.connect(self._leaving.forget_choice)
        self.commands.window_wanted.connect(self._open_window)
        self.commands.page_wanted.connect(self._open_page)
        self.commands.unpair_asked.connect(self._ask_unpair)
        self.commands.start_asked.connect(self._supervisor.start_again)
        self.commands.quit_asked.connect(self._leaving.ask)
        self.commands.refused.connect(self._show_refusal)
        self._leaving.refused.connect(self._show_refusal)
        self._leaving.remembered.connect(self.status_window.show_remembered)
        self._leaving.done.connect(self._exit)
        self._app.styleHints().colorSchemeChanged.connect(self._apply_theme)
        self._app.saveStateRequest.connect(self._on_save_state)

    def start(self) -> None:
        """Begin to work; a start in the foreground shows the status window."""
        self._leaving.tell_remembered()
        self._refresh()
        self._supervisor.start()
        self._host.start()
        if not self._background:
            self._show_status()
            self._show_previous_crash()

    def close(self) -> None:
        """Take everything down; the core goes on."""
        self._supervisor.close()
        self._tray.close()
        self.binder.close()
        for window in (self.status_window, self.pairing_window, self.metrics_window):
            if window is not None:
                window.hide()
                window.deleteLater()
        self._instance.close()
        self._signals.close()
        self._crash.close()

    @Slot()
    def _refresh(self) -> None:
        situation = self.store.situation
        self._tray.show(show(situation))
        self.binder.update(menu(situation))

    @Slot()
    def _apply_theme(self) -> None:
        theme.apply(self._app, self._prefs.prefs.scheme)
        if self.metrics_window is not None:
            self.metrics_window.recolour()

    @Slot(str)
    def _open_window(self, name: str) -> None:
        openers = {"pair": self._show_pairing, "metrics": self._show_metrics, "status": self._show_status}
        openers[name]()

    @Slot()
    def _show_status(self) -> None:
        _bring_up(self.status_window)

    def _show_pairing(self) -> None:
        if self.pairing_window is None:
            self.pairing_window = PairingWindow(self._client, self.store, platform.node() or "workstation")
            self.pairing_window.open_page.connect(self._open_page)
            self.pairing_window.closed.connect(self._on_pairing_closed)
        _bring_up(self.pairing_window)

    @Slot()
    def _on_pairing_closed(self) -> None:
        self.pairing_window = None

    def _show_metrics(self) -> None:
        if self.metrics_window is None:
            # Plotting brings numpy along: it is loaded when somebody first looks, not with the tray.
            from app.desktop.windows.metrics import MetricsWindow

            self.metrics_window = MetricsWindow(self._source, self.store)
        _bring_up(self.metrics_window)

    @Slot(str)
    def _open_page(self, address: str) -> None:
        if not QDesktopServices.openUrl(QUrl(address)):
            Notice(self._front(), "No browser could be opened", f"Open this address yourself: {address}").open()

    @Slot()
    def _ask_unpair(self) -> None:
        question = Question(
            self._front(),
            "Unpair this computer?",
            "A running job ends with its last checkpoint, and the worker's key is removed from this computer. "
            "Pairing again needs a new code.",
            [Choice(id="unpair", text="&Unpair")],
        )
        question.answered.connect(self._on_unpair_answered)
        question.open()

    @Slot(str, bool)
    def _on_unpair_answered(self, choice: str, remember: bool) -> None:
        self.commands.unpair()

    @Slot(str, str)
    def _show_refusal(self, headline: str, sentence: str) -> None:
        Notice(self._front(), headline, sentence).open()

    def _show_previous_crash(self) -> None:
        if self._crash.previous:
            Notice(
                self.status_window,
                "Stoker's window ended unexpectedly last time",
                "Training was not touched by it. These details help to find the fault.",
                self._crash.previous,
            ).open()

    @Slot()
    def _exit(self) -> None:
        # quit() would first ask every window whether it may close.
        self._app.exit(0)

    @Slot()
    def _on_status_closing(self) -> None:
        if not self._host.present:
            self._leaving.ask_about_closing(self.status_window)

    @Slot(QSessionManager)
    def _on_save_state(self, session: QSessionManager) -> None:
        # The desktop is started at log-in by its own setting, not by the session's memory.
        session.setRestartHint(QSessionManager.RestartHint.RestartNever)

    def _front(self) -> QWidget | None:
        """The window a dialog belongs to, when one is open."""
        return next(
            (window for window in (self.pairing_window, self.status_window) if window and window.isVisible()), None
        )


def _bring_up(window: QWidget) -> None:
    window.setWindowIcon(app_icon())
    window.showNormal() if window.isMinimized() else window.show()
    window.raise_()
    window.activateWindow()


def run(app: QApplication, paths: Paths, instance: SingleInstance, *, background: bool) -> int:
    """Run the desktop until it is quit and return the exit code."""
    app.setQuitOnLastWindowClosed(False)
    desktop = Desktop(app, paths, instance, background=background)
    QTimer.singleShot(0, desktop, desktop.start)
    code = app.exec()
    desktop.close()
    return code
