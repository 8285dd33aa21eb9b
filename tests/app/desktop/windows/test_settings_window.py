"""The settings window shows what holds, keeps what is typed, and says what is wrong beside the field."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QAbstractButton, QComboBox, QDoubleSpinBox, QLabel, QLineEdit, QPushButton, QWidget

from app.desktop.prefs import PrefsFile
from app.desktop.windows.settings import SettingsWindow
from tests.desktop.scripted_core import ScriptedCore
from tests.desktop.wiring import Wired
from worker_core.control.messages import ErrorBody
from worker_core.wire.owner_rules import Hours, OwnerRules

Wait = Callable[..., None]
HOURS = "Hours in which jobs run"


def field(window: QWidget, name: str, kind: type[QWidget] = QLineEdit) -> QWidget:
    return next(found for found in window.findChildren(kind) if found.accessibleName() == name)


def press(window: QWidget, words: str) -> None:
    next(found for found in window.findChildren(QPushButton) if found.text().replace("&", "") == words).click()


def said(window: QWidget) -> str:
    return " ".join(shown.text() for shown in window.findChildren(QLabel) if shown.isVisible())


@pytest.fixture
def window(core: ScriptedCore, link: Wired, owner: QObject, tmp_path: Path, wait: Wait) -> Iterator[SettingsWindow]:
    core.rules = OwnerRules(hours=(Hours(begin="20:00", end="08:00"),), idle_minutes=10, programs=("blender", "game"))
    prefs = PrefsFile(tmp_path / "prefs.json", owner)
    made = SettingsWindow(link.client, link.store, prefs)
    made.show()
    wait(lambda: field(made, HOURS).text() == "20:00-08:00")  # type: ignore[attr-defined]
    yield made
    made.hide()
    made.deleteLater()


def test_what_holds_is_shown_and_what_is_changed_is_kept_at_once(
    window: SettingsWindow, core: ScriptedCore, wait: Wait, tmp_path: Path
) -> None:
    field(window, HOURS).setText("sat,sun 00:00-00:00")  # type: ignore[attr-defined]
    heat = field(window, "GPU temperature at which jobs pause", QDoubleSpinBox)
    heat.setValue(80)  # type: ignore[attr-defined]
    notices = field(window, "Which notifications are shown", QComboBox)
    notices.setCurrentIndex(1)  # type: ignore[attr-defined]
    press(window, "Save")
    wait(lambda: core.asked("set-rules"))
    wait(lambda: not window.isVisible())
    assert core.rules.hours == (Hours(begin="00:00", end="00:00", days=("sat", "sun")),)
    assert (core.rules.max_gpu_c, core.rules.idle_minutes, core.rules.programs) == (80, 10, ("blender", "game"))
    assert '"notices": "important"' in (tmp_path / "prefs.json").read_text()


def test_a_wrong_span_is_told_while_it_is_typed_and_is_not_saved(window: SettingsWindow, core: ScriptedCore) -> None:
    hours = field(window, HOURS)
    hours.setText("at night")  # type: ignore[attr-defined]
    hours.textEdited.emit("at night")  # type: ignore[attr-defined]
    assert "no span of hours" in said(window)
    press(window, "Save")
    assert window.isVisible()
    assert core.asked("set-rules") == []


def test_saving_changes_no_rule_that_nobody_touched(window: SettingsWindow, core: ScriptedCore, wait: Wait) -> None:
    window.hide()
    held = OwnerRules(
        hours=(Hours(begin="20:00", end="08:00", days=("mon", "fri")),),
        after_hours="drain",
        idle_minutes=0.4,
        pause_on_battery=False,
        max_gpu_c=82.5,
        programs=("blender", "game"),
        pause_on_metered=True,
        keep_awake="always",
    )
    core.rules = held
    window.show()
    wait(lambda: field(window, HOURS).text() == "mon,fri 20:00-08:00")  # type: ignore[attr-defined]
    idle = field(window, "Minutes without anybody before jobs run", QDoubleSpinBox)
    assert idle.text() == f"0{idle.locale().decimalPoint()}4 min"  # type: ignore[attr-defined]
    press(window, "Save")
    wait(lambda: core.asked("set-rules"))
    wait(lambda: not window.isVisible())
    assert core.rules == held


def test_too_many_programs_are_told_in_plain_words(window: SettingsWindow, core: ScriptedCore) -> None:
    field(window, "Programs beside which nothing trains").setText(", ".join(f"p{n}" for n in range(51)))  # type: ignore[attr-defined]
    press(window, "Save")
    assert "These are 51 programs; 50 are the most." in said(window)
    assert core.asked("set-rules") == []


def test_a_worker_that_refuses_or_is_gone_is_said_and_nothing_typed_is_lost(
    window: SettingsWindow, core: ScriptedCore, wait: Wait
) -> None:
    core.errors["set-rules"] = ErrorBody(code="failed", text="the rules hold now, but a restart forgets them")
    field(window, HOURS).setText("21:00-07:00")  # type: ignore[attr-defined]
    press(window, "Save")
    wait(lambda: "a restart forgets them" in said(window))
    assert field(window, HOURS).text() == "21:00-07:00"  # type: ignore[attr-defined]


def test_every_field_has_a_name_and_every_label_a_key(window: SettingsWindow) -> None:
    for kind in (QLineEdit, QComboBox, QDoubleSpinBox):
        for found in window.findChildren(kind):
            if not isinstance(found.parent(), QDoubleSpinBox | QComboBox):
                assert found.accessibleName(), found
    keyed: list[QAbstractButton | QLabel] = [*window.findChildren(QAbstractButton)]
    keyed += [shown for shown in window.findChildren(QLabel) if bool(shown.buddy())]
    keys = [shown.text()[shown.text().index("&") + 1].lower() for shown in keyed if shown.text()]
    assert len(keys) == len(set(keys)), keys
