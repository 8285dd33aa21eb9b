"""Builds the desktop in order, keeps its parts alive, and takes them down in reverse."""

from PySide6.QtCore import QObject, QTimer, Slot
from PySide6.QtGui import QSessionManager
from PySide6.QtWidgets import QApplication

from app.desktop.commands import Commands
from app.desktop.control.client import ControlClient
from app.desktop.control.store import WorkerStore
from app.desktop.control.supervisor import Supervisor
from app.desktop.crash import CrashRecorder
from app.desktop.leaving import Leaving
from app.desktop.notify.watch import NoticeWatch
from app.desktop.platform.autostart_duty import AutostartDuty
from app.desktop.prefs import PrefsFile
from app.desktop.presenter.menu import menu
from app.desktop.presenter.status import show
from app.desktop.single_instance import SingleInstance
from app.desktop.tray.host import TrayHost
from app.desktop.tray.icon import TrayIcon
from app.desktop.tray.menu_binder import MenuBinder
from app.desktop.unix_signals import EndSignals
from worker_core.machine.paths import Paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from app.desktop.windows.front import Front


class Desktop(QObject):
    """The running desktop."""

    def __init__(self, app: QApplication, paths: Paths, instance: SingleInstance, *, background: bool) -> None:
        super().__init__(app)
        self._app = app
        self._background = background
        self._session_ends = False
        self._prefs = PrefsFile(paths.config / "desktop.json", self)
        self._crash = CrashRecorder(paths.logs)
        self._signals = EndSignals(self)
        self._instance = instance
        self._client = ControlClient(self)
        self.store = WorkerStore(self)
        self._supervisor = Supervisor(self, paths, self._client)
        self.commands = Commands(self, self._client, self.store)
        self._leaving = Leaving(self, self._client, self.store, self._prefs)
        self.binder = MenuBinder(self)
        self._tray = TrayIcon(self, self.binder.menu)
        self._host = TrayHost(self)
        self._notices = NoticeWatch(self, self.store, self._prefs, paths.data / "desktop-told.json")
        self._autostart = AutostartDuty(self, paths, self._prefs)
        self._front: Front | None = None
        self._connect()

    @property
    def front(self) -> "Front":
        """The windows, loaded when the first of them is wanted: most days nobody opens one."""
        if self._front is None:
            from app.desktop.windows.front import Front

            self._front = Front(self, self._client, self.store, self._prefs)
            self._front.commanded.connect(self.commands.give)
            self._front.status_closed.connect(self._on_status_closed)
            self._front.ask_again.connect(self._leaving.forget_choice)
            self._front.unpair_confirmed.connect(self.commands.unpair)
            self._leaving.remembered.connect(self._front.status_window.show_remembered)
            self._leaving.tell_remembered()
        return self._front

    def _connect(self) -> None:
        self._signals.asked.connect(self._exit)
        self._instance.raise_asked.connect(self._show_status)
        self._supervisor.link_changed.connect(self.store.set_link)
        self._client.snapshot_arrived.connect(self.store.take_snapshot)
        self.store.changed.connect(self._refresh)
        self._host.appeared.connect(self._on_host)
        self._host.missing.connect(self._show_status)
        self._tray.opened.connect(self._show_status)
        self.binder.commanded.connect(self.commands.give)
        self.binder.about_to_show.connect(self._refresh)
        self.commands.window_wanted.connect(self._open_window)
        self.commands.page_wanted.connect(self._open_page)
        self.commands.unpair_asked.connect(self._ask_unpair)
        self.commands.start_asked.connect(self._supervisor.start_again)
        self.commands.quit_asked.connect(self._leaving.ask)
        self.commands.refused.connect(self._show_message)
        self.commands.partly_done.connect(self._show_message)
        self._notices.commanded.connect(self.commands.give)
        self._autostart.failed.connect(self._show_message)
        self._leaving.refused.connect(self._show_message)
        self._leaving.done.connect(self._exit)
        self._app.saveStateRequest.connect(self._on_save_state)
        self._app.commitDataRequest.connect(self._on_session_end)

    def start(self) -> None:
        """Begin to work; a start in the foreground shows the status window."""
        self._refresh()
        self._supervisor.start()
        self._host.start()
        self._autostart.start()
        if not self._background:
            self._show_status()

    def close(self) -> None:
        """Take everything down; the core goes on."""
        self._supervisor.close()
        self._notices.close()
        self._tray.close()
        self.binder.close()
        if self._front is not None:
            self._front.close()
        self._instance.close()
        self._signals.close()
        self._crash.close()

    @Slot()
    def _refresh(self) -> None:
        situation = self.store.situation
        self._tray.show(show(situation))
        self.binder.update(menu(situation))

    @Slot()
    def _on_host(self) -> None:
        self._tray.create()
        self._notices.show_through(self._tray.icon)

    @Slot(str)
    def _open_window(self, name: str) -> None:
        self.front.open(name)
        self._tell_previous_crash()

    @Slot(str)
    def _open_page(self, address: str) -> None:
        self.front.open_page(address)

    @Slot()
    def _show_status(self) -> None:
        self.front.show_status()
        self._tell_previous_crash()

    @Slot()
    def _ask_unpair(self) -> None:
        self.front.ask_unpair()

    @Slot(str, str)
    def _show_message(self, headline: str, sentence: str) -> None:
        self.front.tell(headline, sentence)

    def _tell_previous_crash(self) -> None:
        if not self._crash.previous:
            return
        headline = "Something went wrong in Stoker's window last time"
        sentence = "Training was not touched by it. These details help to find the fault."
        self.front.tell(headline, sentence, self._crash.previous)
        self._crash.forget_previous()

    @Slot()
    def _on_status_closed(self) -> None:
        if not self._host.present and not self._session_ends:
            self._leaving.ask_about_closing(self.front.status_window)

    @Slot(QSessionManager)
    def _on_session_end(self, session: QSessionManager) -> None:
        # Nobody is there to answer a question. The worker hears of the end by itself and saves what it has.
        self._session_ends = True

    @Slot()
    def _exit(self) -> None:
        # quit() would first ask every window whether it may close.
        self._app.exit(0)

    @Slot(QSessionManager)
    def _on_save_state(self, session: QSessionManager) -> None:
        # The desktop is started at log-in by its own setting, not by the session's memory.
        session.setRestartHint(QSessionManager.RestartHint.RestartNever)


def run(app: QApplication, paths: Paths, instance: SingleInstance, *, background: bool) -> int:
    """Run the desktop until it is quit and return the exit code."""
    app.setQuitOnLastWindowClosed(False)
    desktop = Desktop(app, paths, instance, background=background)
    QTimer.singleShot(0, desktop, desktop.start)
    code = app.exec()
    desktop.close()
    return code
