"""Quit asks while a job runs, does what was answered, and remembers it when asked to; windows leave nothing behind."""

import gc
import socket
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QCheckBox, QPushButton, QWidget

from app.desktop.leaving import Leaving
from app.desktop.prefs import PrefsFile
from app.desktop.windows.pairing import PairingWindow
from app.desktop.windows.status import StatusWindow
from tests.desktop.scripted_core import ScriptedCore, paired, training
from tests.desktop.wiring import Wired
from worker_core.control.messages import ErrorBody
from worker_core.wire.status import ModesShown

Wait = Callable[..., None]


class Setting:
    """A door out, and what came through it."""

    def __init__(self, owner: QObject, link: Wired, path: Path) -> None:
        self.file = path / "config" / "desktop.json"
        self.leaving = Leaving(owner, link.client, link.store, PrefsFile(self.file))
        self.done: list[bool] = []
        self.refused: list[str] = []
        self.leaving.done.connect(self._on_done)
        self.leaving.refused.connect(self._on_refused)

    def _on_done(self) -> None:
        self.done.append(True)

    def _on_refused(self, headline: str, sentence: str) -> None:
        self.refused.append(sentence)


@pytest.fixture
def setting(owner: QObject, link: Wired, tmp_path: Path) -> Setting:
    return Setting(owner, link, tmp_path)


def dialogs(title: str) -> list[QWidget]:
    return [shown for shown in QApplication.topLevelWidgets() if shown.isVisible() and shown.windowTitle() == title]


def answer(title: str, choice: str, *, remember: bool = False) -> None:
    (dialog,) = dialogs(title)
    next(iter(dialog.findChildren(QCheckBox))).setChecked(remember)
    made = dialog.findChild(QPushButton, choice)
    assert isinstance(made, QPushButton)
    made.click()


@pytest.mark.parametrize(
    ("choice", "asked"), [("keep", []), ("drain", [{"how": "drain"}]), ("stop", [{"how": "checkpoint"}])]
)
def test_each_answer_does_what_it_says(
    core: ScriptedCore, link: Wired, setting: Setting, wait: Wait, choice: str, asked: list[dict[str, str]]
) -> None:
    core.set_status(training())
    wait(lambda: (status := link.store.situation.live) is not None and status.job)
    setting.leaving.ask()
    setting.leaving.ask()
    assert setting.done == []
    answer("A job is training", choice)
    wait(lambda: setting.done)
    assert core.asked("quit") == asked
    assert not setting.file.exists()


def test_keeping_on_is_the_answer_of_the_enter_key(
    core: ScriptedCore, link: Wired, setting: Setting, wait: Wait
) -> None:
    core.set_status(training())
    wait(lambda: (status := link.store.situation.live) is not None and status.job)
    setting.leaving.ask()
    (dialog,) = dialogs("A job is training")
    assert [made.objectName() for made in dialog.findChildren(QPushButton) if made.isDefault()] == ["keep"]
    assert all("&" in made.text() for made in dialog.findChildren(QPushButton))
    dialog.close()
    assert setting.done == []


def test_a_remembered_answer_is_used_until_it_is_forgotten(
    core: ScriptedCore, link: Wired, setting: Setting, wait: Wait
) -> None:
    words: list[str] = []
    setting.leaving.remembered.connect(words.append)
    core.set_status(training())
    wait(lambda: (status := link.store.situation.live) is not None and status.job)
    setting.leaving.ask()
    answer("A job is training", "keep", remember=True)
    setting.leaving.ask()
    assert setting.done == [True, True]
    setting.leaving.tell_remembered()
    setting.leaving.forget_choice()
    assert words == ["Quit keeps the worker training.", "Quit keeps the worker training.", ""]
    setting.leaving.ask()
    answer("A job is training", "keep")


def test_a_core_that_refuses_to_end_keeps_the_desktop(
    core: ScriptedCore, link: Wired, setting: Setting, wait: Wait
) -> None:
    core.set_status(paired())
    core.errors["quit"] = ErrorBody(code="busy", text="Wait a moment.")
    wait(lambda: (status := link.store.situation.live) is not None and status.state == "available")
    setting.leaving.ask()
    wait(lambda: setting.refused == ["Wait a moment."])
    assert setting.done == []


@pytest.mark.parametrize(("mode", "requests"), [(ModesShown(here="stop"), [{"how": "checkpoint"}]), (ModesShown(), [])])
def test_quit_is_carried_out_when_the_job_it_asks_about_is_stopped_or_over(
    core: ScriptedCore, link: Wired, setting: Setting, wait: Wait, mode: ModesShown, requests: list[dict[str, str]]
) -> None:
    core.set_status(training())
    wait(lambda: (status := link.store.situation.live) is not None and status.job)
    setting.leaving.ask()
    core.set_status(paired("paused" if requests else "available", mode=mode))
    wait(lambda: setting.done == [True])
    assert dialogs("A job is training") == []
    assert core.asked("quit") == requests


def test_stop_and_then_quit_at_once_ends_without_a_question(
    core: ScriptedCore, link: Wired, setting: Setting, wait: Wait
) -> None:
    core.set_status(training(state="paused", mode=ModesShown(here="stop")))
    wait(lambda: (status := link.store.situation.live) is not None and status.job)
    setting.leaving.ask()
    wait(lambda: setting.done == [True])
    assert core.asked("quit") == [{"how": "checkpoint"}]


def test_a_core_that_ends_before_its_answer_arrives_has_done_what_was_asked(
    core: ScriptedCore, link: Wired, setting: Setting, wait: Wait
) -> None:
    core.set_status(paired())
    wait(lambda: (status := link.store.situation.live) is not None and status.state == "available")
    core.behaviour = "slow"
    setting.leaving.ask()
    wait(lambda: core.asked("quit"))
    for client in tuple(core._clients):
        client.shutdown(socket.SHUT_RDWR)
    wait(lambda: setting.done == [True])
    assert setting.refused == []


def test_closing_the_last_window_asks_once(link: Wired, setting: Setting) -> None:
    window = StatusWindow(link.store)
    words: list[str] = []
    setting.leaving.remembered.connect(words.append)
    setting.leaving.ask_about_closing(window)
    answer("Keep Stoker running?", "keep")
    setting.leaving.ask_about_closing(window)
    assert dialogs("Keep Stoker running?") == []
    assert words == ["Closing this window keeps Stoker running."]
    setting.leaving.forget_choice()
    setting.leaving.ask_about_closing(window)
    answer("Keep Stoker running?", "keep")
    window.deleteLater()


def test_windows_opened_and_closed_many_times_leave_nothing(
    core: ScriptedCore, link: Wired, qapp: QApplication, owner: QObject
) -> None:
    def cycle() -> None:
        window = PairingWindow(link.client, link.store, "den")
        window.show()
        core.set_status(training())
        qapp.processEvents()
        window.close()
        qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    for _ in range(20):
        cycle()
    gc.collect()
    widgets, memory = len(QApplication.allWidgets()), psutil.Process().memory_info().rss
    for _ in range(60):
        cycle()
    gc.collect()
    assert len(QApplication.allWidgets()) <= widgets
    assert psutil.Process().memory_info().rss - memory < 3 * 2**20
