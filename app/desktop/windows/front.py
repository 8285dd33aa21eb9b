"""Every window and message of the desktop, each made when it is first needed; a resting tray carries none of them."""

import platform

from PySide6.QtCore import QObject, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QWidget

from app.desktop.control.client import ControlClient
from app.desktop.control.metric_source import MetricSource
from app.desktop.control.store import WorkerStore
from app.desktop.prefs import PrefsFile
from app.desktop.presenter.answers import UNPAIR
from app.desktop.windows import theme
from app.desktop.windows.dialogs import Notice, Question
from app.desktop.windows.pairing import PairingWindow
from app.desktop.windows.parts import bring_up
from app.desktop.windows.status import StatusWindow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from app.desktop.windows.metrics import MetricsWindow
    from app.desktop.windows.settings import SettingsWindow


class Front(QObject):
    """Opens windows and brings them up."""

    commanded = Signal(str)
    status_closed = Signal()
    """A person closed the status window."""
    ask_again = Signal()
    unpair_confirmed = Signal()

    def __init__(self, parent: QObject, client: ControlClient, store: WorkerStore, prefs: PrefsFile) -> None:
        super().__init__(parent)
        self._client = client
        self._store = store
        self._prefs = prefs
        self._applied: theme.Scheme | None = None
        self.pairing_window: PairingWindow | None = None
        self.metrics_window: MetricsWindow | None = None
        self.settings_window: SettingsWindow | None = None
        self._apply_theme()
        self.status_window = StatusWindow(store)
        self.status_window.commanded.connect(self.commanded)
        self.status_window.closing.connect(self.status_closed)
        self.status_window.ask_again.connect(self.ask_again)
        QApplication.styleHints().colorSchemeChanged.connect(self._apply_theme)
        prefs.changed.connect(self._on_prefs)

    def close(self) -> None:
        """Take all windows away."""
        for window in (self.status_window, self.pairing_window, self.metrics_window, self.settings_window):
            if window is not None:
                window.hide()
                window.deleteLater()

    def open(self, name: str) -> None:
        """Open the window with this name: one of :data:`app.desktop.views.VIEWS`."""
        openers = {
            "status": self.show_status,
            "pair": self._show_pairing,
            "metrics": self._show_metrics,
            "settings": self._show_settings,
        }
        openers[name]()

    def show_status(self) -> None:
        """Show the status window in front of the others."""
        bring_up(self.status_window)

    @Slot(str)
    def open_page(self, address: str) -> None:
        """Open an address in the browser."""
        if not QDesktopServices.openUrl(QUrl(address)):
            self.tell("No browser could be opened", f"Open this address yourself: {address}")

    def tell(self, headline: str, sentence: str, details: str = "") -> None:
        """Show a message."""
        Notice(self._front(), headline, sentence, details).open()

    def ask_unpair(self) -> None:
        """Ask before this worker is unpaired."""
        question = Question(self._front(), "Unpair this computer?", UNPAIR.text, UNPAIR.answers)
        question.answered.connect(self._on_unpair_answered)
        question.open()

    def _show_pairing(self) -> None:
        if self.pairing_window is None:
            self.pairing_window = PairingWindow(self._client, self._store, platform.node() or "workstation")
            self.pairing_window.open_page.connect(self.open_page)
            self.pairing_window.closed.connect(self._on_pairing_closed)
        bring_up(self.pairing_window)

    def _show_metrics(self) -> None:
        if self.metrics_window is None:
            # Plotting brings numpy along: it is loaded when somebody first looks.
            from app.desktop.windows.metrics import MetricsWindow

            source = MetricSource(self, self._client, self._store)
            self.metrics_window = MetricsWindow(source, self._store)
        bring_up(self.metrics_window)

    def _show_settings(self) -> None:
        if self.settings_window is None:
            from app.desktop.windows.settings import SettingsWindow

            self.settings_window = SettingsWindow(self._client, self._store, self._prefs)
        bring_up(self.settings_window)

    def _front(self) -> QWidget | None:
        """The window a message belongs to, when one is open."""
        windows = (self.pairing_window, self.settings_window, self.status_window, self.metrics_window)
        return next((window for window in windows if window is not None and window.isVisible()), None)

    @Slot()
    def _on_prefs(self) -> None:
        if self._prefs.prefs.scheme != self._applied:
            self._apply_theme()

    @Slot()
    def _apply_theme(self) -> None:
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        self._applied = self._prefs.prefs.scheme
        theme.apply(app, self._applied)
        if self.metrics_window is not None:
            self.metrics_window.recolour()

    @Slot()
    def _on_pairing_closed(self) -> None:
        self.pairing_window = None

    @Slot(str, bool)
    def _on_unpair_answered(self, choice: str, remember: bool) -> None:
        self.unpair_confirmed.emit()
