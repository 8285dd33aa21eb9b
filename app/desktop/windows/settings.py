"""The settings window: when this computer trains, and how this program behaves."""

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from app.desktop.control.client import ControlClient
from app.desktop.control.store import WorkerStore
from app.desktop.prefs import PrefsFile
from app.desktop.presenter.hours_text import EXAMPLE, BadHours, hours_text, parse_hours
from app.desktop.presenter.programs_text import BadPrograms, parse_programs, programs_text
from app.desktop.windows.parts import GAP, MARGIN, button, card, hug, label, restyle
from worker_core.control.messages import ErrorBody
from worker_core.wire.codec import BadMessage, convert
from worker_core.wire.owner_rules import OwnerRules

NAME_PX = 200
_AWAKE = (("on-mains", "On mains power"), ("always", "Always"), ("never", "Never"))
_AFTER = (("stop", "Stop it at a checkpoint"), ("drain", "Let it finish"))
_NOTICES = (("all", "All"), ("important", "Only what needs somebody"), ("off", "None"))
_SCHEMES = (("system", "As the desktop"), ("light", "Light"), ("dark", "Dark"))


class SettingsWindow(QWidget):
    """Shows the rules of the worker and the preferences of the desktop; Save keeps both."""

    saved = Signal()

    def __init__(self, client: ControlClient, store: WorkerStore, prefs: PrefsFile) -> None:
        super().__init__()
        self._client = client
        self._store = store
        self._prefs = prefs
        self._rules: OwnerRules | None = None
        """The rules of the worker, once it told them."""
        self.setWindowTitle("Stoker settings")
        self.setMinimumWidth(600)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        layout.setSpacing(GAP)
        layout.addWidget(label("When this computer trains", "heading"))
        layout.addWidget(self._build_rules())
        layout.addWidget(label("This program", "heading"))
        layout.addWidget(self._build_program())
        layout.addLayout(self._build_row())
        store.changed.connect(self._on_store)
        QShortcut(QKeySequence.StandardKey.Close, self, self.hide)
        QShortcut(QKeySequence.StandardKey.Cancel, self, self.hide)

    def _build_rules(self) -> QWidget:
        self._rules_card, layout = card()
        form = _form()
        self._hours = QLineEdit()
        self._hours.setPlaceholderText(f"Always. For example: {EXAMPLE}")
        self._hours.textEdited.connect(self._on_edited)
        self._after = _choice(_AFTER)
        self._idle = _number(" min", 1440)
        self._battery = QCheckBox("No job on battery po&wer")
        self._heat = _number(" °C", 120)
        self._programs = QLineEdit()
        self._programs.setPlaceholderText("Names, separated by commas")
        self._metered = QCheckBox("No new &job on a network paid for by volume")
        self._awake = _choice(_AWAKE)
        form.addRow("&Hours", self._hours)
        form.addRow("When they end, a &running job", self._after)
        form.addRow("Only when nobody was here &for", self._idle)
        form.addRow("Pause at a GPU &temperature of", self._heat)
        form.addRow("Pause beside the &programs", self._programs)
        form.addRow("&Keep awake while a job runs", self._awake)
        _widen(form)
        layout.addLayout(form)
        layout.addWidget(self._battery)
        layout.addWidget(self._metered)
        self._trouble = label(role="alert", wrap=True)
        self._trouble.hide()
        layout.addWidget(self._trouble)
        self._named = {
            self._hours: "Hours in which jobs run",
            self._after: "What happens to a running job when the hours end",
            self._idle: "Minutes without anybody before jobs run",
            self._heat: "GPU temperature at which jobs pause",
            self._programs: "Programs beside which nothing trains",
            self._awake: "When the computer is kept awake",
        }
        for widget, name in self._named.items():
            widget.setAccessibleName(name)
        return self._rules_card

    def _build_program(self) -> QWidget:
        frame, layout = card()
        form = _form()
        self._notices = _choice(_NOTICES)
        self._scheme = _choice(_SCHEMES)
        self._notices.setAccessibleName("Which notifications are shown")
        self._scheme.setAccessibleName("Colours of the windows")
        self._autostart = QCheckBox("Start with this comp&uter")
        form.addRow("&Notifications shown", self._notices)
        form.addRow("Co&lours", self._scheme)
        _widen(form)
        layout.addLayout(form)
        layout.addWidget(self._autostart)
        return frame

    def _build_row(self) -> QHBoxLayout:
        row = QHBoxLayout()
        self._save = button("&Save", primary=True)
        self._save.clicked.connect(self._on_save)
        close = button("&Close")
        close.clicked.connect(self.hide)
        row.addStretch()
        row.addWidget(close)
        row.addWidget(self._save)
        return row

    def showEvent(self, event: QShowEvent) -> None:
        """Show what holds now."""
        super().showEvent(event)
        prefs = self._prefs.prefs
        _choose(self._notices, prefs.notices)
        _choose(self._scheme, prefs.scheme)
        self._autostart.setChecked(prefs.autostart)
        self._rules = None
        self._ask_for_rules()
        hug(self)

    @Slot()
    def _on_store(self) -> None:
        if self.isVisible() and self._rules is None:
            self._ask_for_rules()

    def _ask_for_rules(self) -> None:
        live = self._store.situation.live is not None
        self._rules_card.setEnabled(live and self._rules is not None)
        if not live:
            self._say("The worker does not run. Its rules show here as soon as it does.")
            return
        call = self._client.request("rules")
        call.succeeded.connect(self._on_rules)
        call.failed.connect(self._on_failed)

    @Slot(object)
    def _on_rules(self, answer: object) -> None:
        try:
            rules = convert(answer, OwnerRules)
        except BadMessage as error:
            self._say(f"The worker gave rules nobody understands: {error}.")
            return
        if self._rules is not None:  # what a person types meanwhile is not overwritten
            return
        self._rules = rules
        self._say("")
        self._rules_card.setEnabled(True)
        self._hours.setFocus()
        self._hours.setText(hours_text(rules.hours))
        _choose(self._after, rules.after_hours)
        self._idle.setValue(rules.idle_minutes)
        self._battery.setChecked(rules.pause_on_battery)
        self._heat.setValue(rules.max_gpu_c)
        self._programs.setText(programs_text(rules.programs))
        self._metered.setChecked(rules.pause_on_metered)
        _choose(self._awake, rules.keep_awake)

    @Slot(str)
    def _on_edited(self, text: str) -> None:
        """Say beside the field what is wrong with it while it is typed."""
        try:
            parse_hours(text)
        except BadHours as error:
            self._say(str(error), fault=True)
        else:
            self._say("")

    @Slot()
    def _on_save(self) -> None:
        if self._rules is not None and not self._send_rules():
            return
        changes = {
            "notices": self._notices.currentData(),
            "scheme": self._scheme.currentData(),
            "autostart": self._autostart.isChecked(),
        }
        self._prefs.change(**changes)
        if self._rules is None:
            self._on_saved(None)

    def _send_rules(self) -> bool:
        try:
            rules = self._typed()
        except (BadHours, BadPrograms, BadMessage) as error:
            self._say(str(error), fault=isinstance(error, BadHours))
            return False
        call = self._client.request("set-rules", rules)
        call.succeeded.connect(self._on_saved)
        call.failed.connect(self._on_failed)
        return True

    def _typed(self) -> OwnerRules:
        return convert(
            {
                "hours": [
                    {"begin": span.begin, "end": span.end, "days": span.days}
                    for span in parse_hours(self._hours.text())
                ],
                "after_hours": self._after.currentData(),
                "idle_minutes": self._idle.value(),
                "pause_on_battery": self._battery.isChecked(),
                "max_gpu_c": self._heat.value(),
                "programs": parse_programs(self._programs.text()),
                "pause_on_metered": self._metered.isChecked(),
                "keep_awake": self._awake.currentData(),
            },
            OwnerRules,
        )

    @Slot(object)
    def _on_saved(self, answer: object) -> None:
        self.saved.emit()
        self.hide()

    @Slot(object)
    def _on_failed(self, error: ErrorBody) -> None:
        self._say(error.text)

    def _say(self, words: str, *, fault: bool = False) -> None:
        self._trouble.setText(words)
        self._trouble.setVisible(bool(words))
        self._hours.setProperty("fault", fault)
        restyle(self._hours)
        hug(self)


def _form() -> QFormLayout:
    form = QFormLayout()
    form.setHorizontalSpacing(20)
    form.setVerticalSpacing(10)
    form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    return form


def _widen(form: QFormLayout) -> None:
    """Give the names of all cards one width and the height of their fields, so that everything stands in line."""
    for row in range(form.rowCount()):
        item = form.itemAt(row, QFormLayout.ItemRole.FieldRole)
        shown = item.widget() if item is not None else None
        name = form.labelForField(shown) if shown is not None else None
        if shown is not None and name is not None:
            name.setMinimumSize(NAME_PX, shown.sizeHint().height())


def _choice(choices: tuple[tuple[str, str], ...]) -> QComboBox:
    made = QComboBox()
    for key, words in choices:
        made.addItem(words, key)
    return made


def _choose(box: QComboBox, key: str) -> None:
    box.setCurrentIndex(max(0, box.findData(key)))


class _Number(QDoubleSpinBox):
    """A number that shows as many decimals as it has, so that saving it changes nothing that was not typed."""

    def textFromValue(self, value: float) -> str:
        """Return the number without zeros at its end."""
        text = super().textFromValue(value)
        point = self.locale().decimalPoint()
        return text.rstrip("0").removesuffix(point) if point in text else text


def _number(suffix: str, most: float) -> QDoubleSpinBox:
    made = _Number()
    made.setDecimals(2)
    made.setMaximum(most)
    made.setSuffix(suffix)
    made.setSpecialValueText("Off")
    made.lineEdit().setTextMargins(10, 0, 10, 0)
    return made
