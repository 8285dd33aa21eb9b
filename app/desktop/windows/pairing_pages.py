"""The three pages of the pairing window; they show and ask, the window decides."""

import time

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QApplication,
    QButtonGroup,
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QProgressBar,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from app.desktop.presenter.pairing import MIN_PASSWORD_LENGTH, PairingForm, check_form, spelled_code
from app.desktop.presenter.wording import countdown, host_of
from app.desktop.windows.parts import GAP, MARGIN, button, card, label, restyle
from worker_core.wire.status import PairingShown

TICK_MS = 500
COPIED_MS = 1500


class FormPage(QWidget):
    """Coordinator, e-mail and device name."""

    submitted = Signal(object)
    """A checked :class:`PairingForm`."""
    reshaped = Signal()
    """Fields or messages came or went."""

    def __init__(self, device_name: str) -> None:
        super().__init__()
        self._reachable = False
        self._busy = ""
        layout = QVBoxLayout(self)
        layout.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        layout.setSpacing(6)
        layout.addWidget(label("Pair this computer", "title"))
        layout.addWidget(label("Pairing lets a coordinator send training jobs to this computer.", "muted", wrap=True))
        layout.addSpacing(10)
        self._add_places(layout)
        self._fields: dict[str, QLineEdit] = {}
        self._faults: dict[str, QLabel] = {}
        self._holders: dict[str, QWidget] = {}
        self._coordinator = self._add_field(layout, "coordinator", "C&oordinator", "https://train.example.org")
        self._email = self._add_field(layout, "email", "&E-mail of your account", "you@example.org")
        self._password = self._add_field(
            layout, "password", "New pass&word for the console", f"At least {MIN_PASSWORD_LENGTH} characters"
        )
        self._password.setEchoMode(QLineEdit.EchoMode.Password)
        self._name = self._add_field(layout, "name", "&Name of this computer", "")
        self._name.setText(device_name)
        self._key_in_file = QCheckBox("&Keep the key in a private file instead of the system's key store")
        self._key_in_file.setToolTip("For computers without a key store. Only your account can read the file.")
        layout.addSpacing(2)
        layout.addWidget(self._key_in_file)
        self._add_foot(layout)
        self._on_place()

    def _add_places(self, layout: QVBoxLayout) -> None:
        self._distant = QRadioButton("A coordinator with an &address")
        self._here = QRadioButton("&This computer")
        self._here.setToolTip("Stoker runs a coordinator with a console here, for this computer alone.")
        self._distant.setChecked(True)
        group = QButtonGroup(self)
        row = QHBoxLayout()
        row.setSpacing(20)
        for choice in (self._distant, self._here):
            group.addButton(choice)
            row.addWidget(choice)
        row.addStretch()
        self._here.toggled.connect(self._on_place)
        layout.addLayout(row)
        self._place_note = label(
            "Stoker runs a coordinator with its own console on this computer. Choose the log-in for it here.",
            "muted",
            wrap=True,
        )
        layout.addWidget(self._place_note)
        layout.addSpacing(6)

    def _add_field(self, layout: QVBoxLayout, field: str, title: str, example: str) -> QLineEdit:
        edit = QLineEdit()
        edit.setPlaceholderText(example)
        edit.setMaxLength(300)
        edit.setAccessibleName(title.replace("&", ""))
        edit.textEdited.connect(self._clear_faults)
        edit.returnPressed.connect(self._on_submit)
        caption = label(title, "muted")
        caption.setBuddy(edit)
        fault = label(role="alert", wrap=True)
        fault.hide()
        holder = QWidget()
        column = QVBoxLayout(holder)
        column.setContentsMargins(0, 2, 0, 4)
        column.setSpacing(4)
        for widget in (caption, edit, fault):
            column.addWidget(widget)
        layout.addWidget(holder)
        self._fields[field], self._faults[field], self._holders[field] = edit, fault, holder
        return edit

    def _add_foot(self, layout: QVBoxLayout) -> None:
        self._failure, inside = card()
        self._failure_title = label(role="failure", wrap=True)
        self._failure_text = label(wrap=True, selectable=True)
        inside.addWidget(self._failure_title)
        inside.addWidget(self._failure_text)
        self._failure.hide()
        self._note = label(role="muted", wrap=True)
        self._submit = button("&Get a code", primary=True)
        self._submit.clicked.connect(self._on_submit)
        row = QHBoxLayout()
        row.addWidget(self._note, 1)
        row.addWidget(self._submit)
        layout.addSpacing(6)
        layout.addWidget(self._failure)
        layout.addStretch()
        layout.addSpacing(6)
        layout.addLayout(row)

    def showEvent(self, event: QShowEvent) -> None:
        """Put the cursor where typing begins."""
        super().showEvent(event)
        first = self._coordinator if self._distant.isChecked() else self._email
        (first if not first.text() else self._submit).setFocus()

    def form(self) -> PairingForm:
        """Return what is typed."""
        return PairingForm(
            here=self._here.isChecked(),
            coordinator=self._coordinator.text(),
            email=self._email.text(),
            password=self._password.text(),
            name=self._name.text(),
            key_in_file=self._key_in_file.isChecked(),
        )

    def set_reachable(self, reachable: bool) -> None:
        """Say whether the core can be asked."""
        self._reachable = reachable
        self._refresh()

    def set_busy(self, words: str) -> None:
        """Show what is going on; empty when nothing is."""
        self._busy = words
        if words:
            self._failure.hide()
        self._refresh()

    def show_failure(self, title: str, text: str) -> None:
        """Show why no code came."""
        self._failure_title.setText(title)
        self._failure_text.setText(text)
        self._failure.setAccessibleName(f"{title}. {text}")
        self._failure.show()
        self.reshaped.emit()

    def _refresh(self) -> None:
        self._submit.setEnabled(self._reachable and not self._busy)
        self._note.setText(self._busy or ("" if self._reachable else "Waiting for the worker on this computer…"))

    @Slot()
    def _on_place(self) -> None:
        here = self._here.isChecked()
        for field, visible in (("coordinator", not here), ("password", here)):
            self._holders[field].setVisible(visible)
        self._place_note.setVisible(here)
        self._clear_faults()
        self.reshaped.emit()

    @Slot()
    def _on_submit(self) -> None:
        if not self._submit.isEnabled():
            return
        self._clear_faults()
        error = check_form(self.form())
        if error is None:
            self.submitted.emit(self.form())
            return
        self._faults[error.field].setText(error.text)
        self._faults[error.field].show()
        self._mark(self._fields[error.field], "true")
        self._fields[error.field].setFocus()
        self.reshaped.emit()

    @Slot()
    def _clear_faults(self) -> None:
        for field, fault in self._faults.items():
            if not fault.isHidden():
                fault.hide()
                self._mark(self._fields[field], "false")

    @staticmethod
    def _mark(edit: QLineEdit, fault: str) -> None:
        edit.setProperty("fault", fault)
        restyle(edit)


class CodePage(QWidget):
    """The code, large, with its countdown."""

    open_page = Signal(str)
    canceled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._pairing: PairingShown | None = None
        self._ends = 0.0
        layout = QVBoxLayout(self)
        layout.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        layout.setSpacing(GAP)
        layout.addWidget(label("Approve this computer", "title"))
        self._explain = label(role="muted", wrap=True)
        layout.addWidget(self._explain)
        layout.addWidget(self._build_code())
        layout.addWidget(self._build_fingerprint())
        self._trouble = label(role="alert", wrap=True)
        self._trouble.hide()
        layout.addWidget(self._trouble)
        layout.addStretch()
        layout.addSpacing(6)
        layout.addLayout(self._build_foot())
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self._tick)
        self._copied = QTimer(self, singleShot=True, interval=COPIED_MS)
        self._copied.timeout.connect(self._on_copied_shown)

    def _build_code(self) -> QWidget:
        frame, layout = card()
        layout.setContentsMargins(20, 18, 20, 18)
        row = QHBoxLayout()
        self._code = label(role="code", selectable=True)
        self._copy = button("&Copy")
        self._copy.setAccessibleName("Copy the pairing code")
        self._copy.clicked.connect(self._on_copy)
        row.addWidget(self._code, 1, Qt.AlignmentFlag.AlignLeft)
        row.addWidget(self._copy)
        layout.addLayout(row)
        self._bar = QProgressBar(maximum=1000)
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName("Time left for the code")
        self._left = label(role="muted")
        layout.addSpacing(4)
        layout.addWidget(self._bar)
        layout.addWidget(self._left)
        return frame

    def _build_fingerprint(self) -> QWidget:
        frame, layout = card()
        layout.addWidget(label("The approval page must show the same words", "muted"))
        self._words = label(role="words", wrap=True, selectable=True)
        layout.addWidget(self._words)
        return frame

    def _build_foot(self) -> QHBoxLayout:
        row = QHBoxLayout()
        cancel = button("Cance&l pairing")
        cancel.clicked.connect(self.canceled)
        self._open = button("&Open the approval page", primary=True)
        self._open.clicked.connect(self._on_open)
        row.addWidget(cancel)
        row.addStretch()
        row.addWidget(self._open)
        return row

    def show_pairing(self, pairing: PairingShown) -> None:
        """Show a code and count down."""
        if self._pairing is None or self._pairing.user_code != pairing.user_code:
            self._span_s = max(1.0, pairing.expires_in_s)
        self._pairing = pairing
        self._ends = time.monotonic() + pairing.expires_in_s
        where = host_of(pairing.coordinator)
        self._explain.setText(
            f"Open the approval page of {where}, log in as {pairing.email} and enter this code. "
            "This window changes by itself once you approve."
        )
        self._code.setText(pairing.user_code)
        self._code.setAccessibleName(f"Pairing code: {spelled_code(pairing.user_code)}")
        self._words.setText(pairing.fingerprint)
        self._words.setAccessibleName(f"Words to compare: {pairing.fingerprint}")
        self._open.setToolTip(pairing.verification_uri)
        self._trouble.hide()
        self._timer.start()
        self._tick()

    def show_trouble(self, text: str) -> None:
        """Say that waiting was interrupted."""
        self._trouble.setText(text)
        self._trouble.show()

    def stop(self) -> None:
        """End the countdown."""
        self._timer.stop()
        self._pairing = None

    def showEvent(self, event: QShowEvent) -> None:
        """Put the focus where Enter helps."""
        super().showEvent(event)
        self._open.setFocus()
        if self._pairing is not None:
            self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop the clock; the code goes on without it."""
        super().hideEvent(event)
        self._timer.stop()

    @Slot()
    def _tick(self) -> None:
        remaining_s = self._ends - time.monotonic()
        self._bar.setValue(max(0, round(remaining_s / self._span_s * 1000)))
        words = f"Waiting for approval   ·   {countdown(remaining_s)} left"
        self._left.setText(words if remaining_s > 0 else "The code's time is up; waiting for the coordinator's word.")

    @Slot()
    def _on_copy(self) -> None:
        QApplication.clipboard().setText(self._code.text())
        self._copy.setText("Copied")
        self._copied.start()

    @Slot()
    def _on_copied_shown(self) -> None:
        self._copy.setText("&Copy")

    @Slot()
    def _on_open(self) -> None:
        if self._pairing is not None:
            self.open_page.emit(self._pairing.verification_uri)


class OutcomePage(QWidget):
    """What came of it, and the next step."""

    again = Signal()
    changed = Signal()
    done = Signal()

    def __init__(self) -> None:
        super().__init__()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        layout.setSpacing(GAP)
        self._headline = label(role="title", wrap=True)
        self._sentence = label(wrap=True, selectable=True)
        layout.addWidget(self._headline)
        layout.addWidget(self._sentence)
        layout.addStretch()
        row = QHBoxLayout()
        self._change = button("Change the &details")
        self._change.clicked.connect(self.changed)
        self._again = button("Get a &new code", primary=True)
        self._again.clicked.connect(self.again)
        self._done = button("&Done", primary=True)
        self._done.clicked.connect(self.done)
        row.addWidget(self._change)
        row.addStretch()
        row.addWidget(self._again)
        row.addWidget(self._done)
        layout.addLayout(row)

    def show_outcome(self, state: str, headline: str, sentence: str) -> None:
        """Show one outcome; only an approval needs nothing more."""
        approved = state == "approved"
        self._headline.setText(headline)
        self._sentence.setText(sentence)
        self._change.setVisible(not approved)
        self._again.setVisible(not approved)
        self._done.setVisible(approved)
        (self._done if approved else self._again).setFocus()
