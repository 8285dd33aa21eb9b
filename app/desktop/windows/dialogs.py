"""Short questions and messages. All are opened, none is executed: the event loop goes on under them."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QDialog,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from app.desktop.presenter.answers import Answer
from app.desktop.windows.parts import GAP, MARGIN, bring_up, button, hug, label

_opened: list[QDialog] = []


class _Sheet(QDialog):
    """A dialog that is opened, is gone when it is closed, and is as high as its content.

    One without a parent belongs to nobody, and PySide destroys what belongs to nobody at once: it is kept here.
    """

    def __init__(self, parent: QWidget | None, title: str) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.setMinimumWidth(520)

    def column(self) -> QVBoxLayout:
        """Return the layout of the dialog."""
        layout = QVBoxLayout(self)
        layout.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        layout.setSpacing(GAP)
        return layout

    def open(self) -> None:
        """Show the dialog in front, and keep it until it is closed."""
        _opened[:] = [sheet for sheet in _opened if isValid(sheet) and sheet is not self] + [self]
        super().open()
        bring_up(self)

    def showEvent(self, event: QShowEvent) -> None:
        """Take the height of the content."""
        super().showEvent(event)
        hug(self)


class Question(_Sheet):
    """Asks one question with a few answers, the first of which is what Enter gives."""

    answered = Signal(str, bool)
    """The id of the choice, and whether it shall be remembered. Not emitted when the question is put away."""

    def __init__(
        self,
        parent: QWidget | None,
        title: str,
        text: str,
        choices: Sequence[Answer],
        *,
        remember: str = "",
        dismiss: str = "&Cancel",
    ) -> None:
        super().__init__(parent, title)
        layout = self.column()
        layout.addWidget(label(title, "title", wrap=True))
        layout.addWidget(label(text, wrap=True))
        layout.addSpacing(4)
        for position, choice in enumerate(choices):
            self._add_choice(layout, choice, primary=position == 0)
        self._remember = QCheckBox(remember)
        self._remember.setVisible(bool(remember))
        row = QHBoxLayout()
        row.addWidget(self._remember)
        row.addStretch()
        if dismiss:
            put_away = button(dismiss)
            put_away.clicked.connect(self.reject)
            row.addWidget(put_away)
        layout.addSpacing(4)
        layout.addLayout(row)

    def _add_choice(self, layout: QVBoxLayout, choice: Answer, *, primary: bool) -> None:
        made = button(choice.text, primary=primary)
        made.setObjectName(choice.id)
        made.setAccessibleDescription(choice.meaning)
        made.clicked.connect(self._on_clicked)
        group = QVBoxLayout()
        group.setSpacing(3)
        group.addWidget(made)
        if choice.meaning:
            group.addWidget(label(choice.meaning, "muted", wrap=True))
        layout.addLayout(group)
        if primary:
            made.setFocus()

    @Slot()
    def _on_clicked(self) -> None:
        sender = self.sender()
        if isinstance(sender, QPushButton):
            self.answered.emit(sender.objectName(), self._remember.isChecked())
            self.accept()


class Notice(_Sheet):
    """Tells something that went wrong, with details that can be copied."""

    def __init__(self, parent: QWidget | None, title: str, text: str, details: str = "") -> None:
        super().__init__(parent, "Stoker")
        self._details = details
        layout = self.column()
        layout.addWidget(label(title, "title", wrap=True))
        layout.addWidget(label(text, wrap=True, selectable=True))
        row = QHBoxLayout()
        if details:
            self._add_details(layout, row)
        row.addStretch()
        close = button("&Close", primary=True)
        close.clicked.connect(self.accept)
        row.addWidget(close)
        layout.addSpacing(4)
        layout.addLayout(row)
        QShortcut(QKeySequence.StandardKey.Close, self, self.reject)

    def _add_details(self, layout: QVBoxLayout, row: QHBoxLayout) -> None:
        shown = QPlainTextEdit(self._details)
        shown.setReadOnly(True)
        shown.setAccessibleName("Details")
        shown.setMinimumHeight(160)
        layout.addWidget(shown)
        copy = button("C&opy details")
        copy.clicked.connect(self._copy)
        row.addWidget(copy)

    @Slot()
    def _copy(self) -> None:
        QApplication.clipboard().setText(self._details)
