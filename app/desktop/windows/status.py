"""The status window: everything about this worker, and every command of the tray menu as a button."""

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QAction, QCloseEvent, QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QFormLayout,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QMenu,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.desktop.control.store import WorkerStore
from app.desktop.presenter.facts import Fact, facts
from app.desktop.presenter.menu import Item, menu
from app.desktop.presenter.status import IconKey, show
from app.desktop.presenter.wording import percent
from app.desktop.tray.icons import draw
from app.desktop.windows.parts import GAP, MARGIN, button, card, hug, label
from app.desktop.windows.theme import is_dark
from worker_core.wire.status import JobShown

REFRESH_MS = 1000
PICTURE_PX = 44
COLUMNS = 3
_ORDER: tuple[str, ...] = (
    "pair",
    "start",
    "give-back",
    "drain",
    "stop",
    "resume",
    "metrics",
    "jobs",
    "logs",
    "console",
    "settings",
    "diagnostics",
    "about",
    "update",
    "unpair",
    "quit",
)


class StatusWindow(QWidget):
    """Home of the desktop where no tray is, and one click away where there is one."""

    commanded = Signal(str)
    closing = Signal()
    """A person closed the window; with no tray the program would now be out of sight."""
    ask_again = Signal()
    """A person wants Quit to ask again."""

    def __init__(self, store: WorkerStore) -> None:
        super().__init__()
        self._store = store
        self._facts: tuple[Fact, ...] = ()
        self._values: list[QLabel] = []
        self._shape: tuple[int, bool, str, bool] | None = None
        self._buttons: dict[str, QPushButton] = {}
        self._flowing: tuple[str, ...] = ()
        """The commands that are laid out."""
        self._choices: tuple[Item, ...] = ()
        self._drawn: tuple[IconKey, float, bool] | None = None
        self.setWindowTitle("Stoker")
        self.setMinimumWidth(520)
        self._build()
        self._timer = QTimer(self, interval=REFRESH_MS)
        self._timer.timeout.connect(self.refresh)
        store.changed.connect(self.refresh)
        QShortcut(QKeySequence.StandardKey.Close, self, self._close_by_key)

    def _build(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        layout.setSpacing(GAP + 4)
        layout.addLayout(self._build_head())
        layout.addWidget(self._build_bar())
        layout.addWidget(self._build_facts())
        layout.addStretch()
        layout.addLayout(self._build_commands())
        layout.addWidget(self._build_remembered())

    def _build_head(self) -> QHBoxLayout:
        self._picture = QLabel()
        self._picture.setFixedSize(PICTURE_PX, PICTURE_PX)
        self._headline = label(role="title", wrap=True)
        self._detail = label(role="muted", wrap=True)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._headline)
        words.addWidget(self._detail)
        row = QHBoxLayout()
        row.setSpacing(16)
        row.addWidget(self._picture, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(words, 1)
        return row

    def _build_bar(self) -> QProgressBar:
        self._bar = QProgressBar(maximum=1000)
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName("Progress of the job")
        return self._bar

    def _build_facts(self) -> QWidget:
        self._facts_card, layout = card()
        self._form = QFormLayout()
        self._form.setHorizontalSpacing(20)
        self._form.setVerticalSpacing(7)
        layout.addLayout(self._form)
        return self._facts_card

    def _build_commands(self) -> QGridLayout:
        self._grid = QGridLayout()
        self._grid.setSpacing(8)
        for command in _ORDER:
            made = button("", primary=command in ("pair", "start"))
            made.setObjectName(command)
            made.setParent(self)
            made.hide()
            if command == "give-back":
                self._give_back = QMenu(made)
                self._give_back.triggered.connect(self._on_chosen)
                made.setMenu(self._give_back)
            else:
                made.clicked.connect(self._on_clicked)
            self._buttons[command] = made
        for column in range(COLUMNS):
            self._grid.setColumnStretch(column, 1)
        return self._grid

    def _flow(self, shown: tuple[str, ...]) -> None:
        """Lay the commands that can be seen out in rows, without gaps."""
        if shown == self._flowing:
            return
        self._flowing = shown
        for made in self._buttons.values():
            self._grid.removeWidget(made)
        for place, command in enumerate(command for command in _ORDER if command in shown):
            self._grid.addWidget(self._buttons[command], *divmod(place, COLUMNS))
            self._buttons[command].setVisible(True)

    def _build_remembered(self) -> QWidget:
        self._remembered = QWidget()
        row = QHBoxLayout(self._remembered)
        row.setContentsMargins(0, 0, 0, 0)
        self._remembered_words = label(role="muted", wrap=True)
        again = button("&Ask again")
        again.clicked.connect(self.ask_again)
        row.addWidget(self._remembered_words, 1)
        row.addWidget(again)
        self._remembered.hide()
        return self._remembered

    def show_remembered(self, words: str) -> None:
        """Say which answer to Quit is remembered; empty when none is."""
        self._remembered_words.setText(words)
        self._remembered.setVisible(bool(words))
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Show the situation of now."""
        if not self.isVisible():
            return
        situation = self._store.situation
        shown = show(situation)
        self._show_picture(shown.icon)
        self._picture.setAccessibleName(shown.headline)
        self._headline.setText(shown.headline)
        self._detail.setText(shown.detail)
        self._detail.setVisible(bool(shown.detail))
        self._show_job(situation.live.job if situation.live else None)
        self._show_facts(facts(situation))
        could_pair = self._buttons["pair"].isEnabled()
        items = tuple(item for item in menu(situation) if item.id in self._buttons)
        for item in items:
            self._show_command(item)
        self._flow(tuple(item.id for item in items if item.visible))
        if not could_pair:
            self._offer_pairing()
        self._hug_when_reshaped()

    def _offer_pairing(self) -> None:
        """Put the focus on the first step of a new worker, unless a person has moved it."""
        pair = self._buttons["pair"]
        if pair.isVisible() and pair.isEnabled() and self.focusWidget() is self._buttons["metrics"]:
            pair.setFocus()

    def _show_picture(self, key: IconKey) -> None:
        """Draw only what differs: Qt keeps every picture that a label was ever given in its cache."""
        ratio, dark = self.devicePixelRatioF(), is_dark()
        if (key, ratio, dark) == self._drawn:
            return
        self._drawn = (key, ratio, dark)
        picture = draw(key, "dark" if dark else "light", round(PICTURE_PX * ratio))
        picture.setDevicePixelRatio(ratio)
        self._picture.setPixmap(picture)

    def _show_job(self, job: JobShown | None) -> None:
        self._bar.setVisible(job is not None)
        if job is not None:
            self._bar.setValue(round(job.progress * 1000))
            self._bar.setAccessibleDescription(percent(job.progress))

    def _show_facts(self, shown: tuple[Fact, ...]) -> None:
        if shown == self._facts:
            return
        same_names = [name for name, _ in shown] == [name for name, _ in self._facts]
        self._facts = shown
        self._facts_card.setVisible(bool(shown))
        if same_names:
            for shown_value, (_, value) in zip(self._values, shown, strict=True):
                shown_value.setText(value)
            return
        while self._form.rowCount():
            self._form.removeRow(0)
        self._values = [label(value, wrap=True, selectable=True) for _, value in shown]
        for shown_value, (name, _) in zip(self._values, shown, strict=True):
            self._form.addRow(label(name, "muted"), shown_value)

    def _show_command(self, item: Item) -> None:
        made = self._buttons[item.id]
        made.setText(item.label)
        made.setToolTip(item.hint)
        made.setEnabled(item.enabled)
        made.setVisible(item.visible)
        if item.children:
            self._show_choices(item.children)

    def _show_choices(self, items: tuple[Item, ...]) -> None:
        """Fill the menu of a button; only a change touches it, so that an open one stays."""
        if items == self._choices:
            return
        self._choices = items
        self._give_back.clear()
        for item in items:
            action = self._give_back.addSeparator() if item.is_separator else self._give_back.addAction(item.label)
            action.setData(item.id)
            action.setEnabled(item.enabled)
            action.setVisible(item.visible)

    def _hug_when_reshaped(self) -> None:
        """Follow the content's height, and leave a size that a person gave the window otherwise alone."""
        shape = (len(self._facts), self._bar.isVisible(), self._detail.text(), self._remembered.isVisible())
        if shape != self._shape:
            self._shape = shape
            hug(self)

    @Slot(QAction)
    def _on_chosen(self, action: QAction) -> None:
        self.commanded.emit(action.data())

    @Slot()
    def _on_clicked(self) -> None:
        sender = self.sender()
        if isinstance(sender, QPushButton):
            self.commanded.emit(sender.objectName())

    def showEvent(self, event: QShowEvent) -> None:
        """Follow the worker while somebody looks."""
        super().showEvent(event)
        self._timer.start()
        self._shape = None
        self.refresh()
        self._buttons["metrics"].setFocus()
        self._offer_pairing()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop the clock."""
        super().hideEvent(event)
        self._timer.stop()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Tell when a person closed the window; the program's own end closes windows too."""
        super().closeEvent(event)
        if event.spontaneous():
            self.closing.emit()

    @Slot()
    def _close_by_key(self) -> None:
        self.close()
        self.closing.emit()
