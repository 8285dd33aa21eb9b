"""The pairing window: a form, then the code a person approves in the console, then what came of it."""

from dataclasses import replace

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QCloseEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.desktop.control.client import ControlClient
from app.desktop.control.store import WorkerStore
from app.desktop.presenter.pairing import PairingForm, coordinator_address, failure_title, outcome_words
from app.desktop.windows.pairing_pages import CodePage, FormPage, OutcomePage
from app.desktop.windows.parts import hug
from worker_core.control.messages import EmbeddedArgs, EmbeddedReady, ErrorBody, PairArgs, PairOutcome
from worker_core.wire.codec import BadMessage, convert
from worker_core.wire.status import PairingShown

PAIR_TIMEOUT_S = 45.0
SETUP_TIMEOUT_S = 90.0


class PairingWindow(QWidget):
    """Pairs this computer. The core does the work; closing the window leaves a waiting code valid."""

    closed = Signal()
    open_page = Signal(str)
    """Open the approval page in the browser."""

    def __init__(self, client: ControlClient, store: WorkerStore, device_name: str) -> None:
        super().__init__()
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._client = client
        self._store = store
        self._form = PairingForm(here=False)
        self._asking = False
        self._waiting = False
        self.setWindowTitle("Pair this computer")
        self.setMinimumWidth(540)
        self._form_page = FormPage(device_name)
        self._code_page = CodePage()
        self._outcome_page = OutcomePage()
        self._page: QWidget | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for page in (self._form_page, self._code_page, self._outcome_page):
            page.hide()
            layout.addWidget(page)
        self._turn_to(self._form_page)
        self._form_page.submitted.connect(self._on_submitted)
        self._form_page.reshaped.connect(self._hug)
        self._code_page.open_page.connect(self.open_page)
        self._code_page.canceled.connect(self._on_cancel)
        self._outcome_page.again.connect(self._on_again)
        self._outcome_page.changed.connect(self._on_change)
        self._outcome_page.done.connect(self.close)
        store.changed.connect(self._on_store)
        QShortcut(QKeySequence.StandardKey.Close, self, self.close)
        QShortcut(QKeySequence.StandardKey.Cancel, self, self.close)
        self._on_store()

    @Slot(object)
    def _on_submitted(self, form: PairingForm) -> None:
        self._form = form
        if form.here:
            self._ask_for_coordinator()
        else:
            self._ask_for_code(coordinator_address(form.coordinator))

    def _ask_for_coordinator(self) -> None:
        self._set_asking("Setting up the coordinator on this computer…")
        args = EmbeddedArgs(email=self._form.email.strip(), password=self._form.password)
        call = self._client.request("coordinator-setup", args, timeout_s=SETUP_TIMEOUT_S)
        call.succeeded.connect(self._on_coordinator)
        call.failed.connect(self._on_failed)

    @Slot(object)
    def _on_coordinator(self, answer: object) -> None:
        try:
            url = convert(answer, EmbeddedReady).url
            # The coordinator is there now; another code from it needs no password.
            self._form = replace(self._form, here=False, coordinator=url, password="")
            self._ask_for_code(url)
        except BadMessage as error:
            self._on_failed(ErrorBody(code="failed", text=f"The worker gave an answer nobody understands: {error}."))

    def _ask_for_code(self, coordinator: str) -> None:
        self._set_asking("Asking for a code…")
        store = "file" if self._form.key_in_file else None
        args = PairArgs(
            coordinator=coordinator,
            email=self._form.email.strip(),
            name=self._form.name.strip(),
            credential_store=store,
        )
        call = self._client.request("pair", args, timeout_s=PAIR_TIMEOUT_S)
        call.succeeded.connect(self._on_code)
        call.failed.connect(self._on_failed)

    @Slot(object)
    def _on_code(self, answer: object) -> None:
        try:
            self._show_code(convert(answer, PairingShown))
        except BadMessage as error:
            self._on_failed(ErrorBody(code="failed", text=f"The worker gave an answer nobody understands: {error}."))

    def _show_code(self, pairing: PairingShown) -> None:
        self._set_asking("")
        self._code_page.show_pairing(pairing)
        self._turn_to(self._code_page)
        if not self._waiting:
            self._waiting = True
            call = self._client.request("pair-wait", timeout_s=None)
            call.succeeded.connect(self._on_outcome)
            call.failed.connect(self._on_wait_failed)

    @Slot(object)
    def _on_outcome(self, answer: object) -> None:
        self._waiting = False
        try:
            outcome = convert(answer, PairOutcome)
        except BadMessage as error:
            outcome = PairOutcome(state="failed", detail=f"The worker gave an answer nobody understands: {error}.")
        self._code_page.stop()
        if outcome.state == "canceled":
            self._turn_to(self._form_page)
            return
        headline, sentence = outcome_words(outcome)
        self._outcome_page.show_outcome(outcome.state, headline, sentence)
        self._turn_to(self._outcome_page)

    @Slot(object)
    def _on_wait_failed(self, error: ErrorBody) -> None:
        """The link broke while waiting: the next snapshot tells whether the code still stands."""
        self._waiting = False
        self._code_page.show_trouble(error.text)

    @Slot(object)
    def _on_failed(self, error: ErrorBody) -> None:
        self._set_asking("")
        self._form_page.show_failure(failure_title(error), error.text)
        self._turn_to(self._form_page)

    @Slot()
    def _on_store(self) -> None:
        status = self._store.situation.live
        self._form_page.set_reachable(status is not None)
        if status is None or self._asking:
            return
        if status.pairing is not None and status.state == "pairing":
            self._show_code(status.pairing)
        elif self._page is self._code_page and not self._waiting:
            self._code_page.stop()
            self._turn_to(self._form_page)

    @Slot()
    def _on_cancel(self) -> None:
        call = self._client.request("pair-cancel")
        call.failed.connect(self._on_cancel_failed)

    @Slot(object)
    def _on_cancel_failed(self, error: ErrorBody) -> None:
        self._code_page.show_trouble(error.text)
        hug(self)

    @Slot()
    def _on_again(self) -> None:
        """One click gives a new code from the same coordinator."""
        if not self._form.email:
            self._on_change()
            return
        self._turn_to(self._form_page)
        self._on_submitted(self._form)

    @Slot()
    def _on_change(self) -> None:
        self._turn_to(self._form_page)

    def _turn_to(self, page: QWidget) -> None:
        if page is self._page:
            return
        if self._page is not None:
            self._page.hide()
        self._page = page
        page.show()
        hug(self)

    @Slot()
    def _hug(self) -> None:
        hug(self)

    def showEvent(self, event: QShowEvent) -> None:
        """Take the height of the page that is shown."""
        super().showEvent(event)
        hug(self)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Say so; the window, with what was typed, is gone afterwards."""
        super().closeEvent(event)
        self.closed.emit()

    def _set_asking(self, words: str) -> None:
        self._asking = bool(words)
        self._form_page.set_busy(words)
