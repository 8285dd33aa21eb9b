"""Messages and questions stay until they are answered, with and without a window they could belong to."""

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QDialog, QPushButton

from app.desktop.prefs import PrefsFile
from app.desktop.windows.front import Front
from tests.desktop.scripted_core import ScriptedCore, paired
from tests.desktop.wiring import Wired

Wait = Callable[..., None]


@pytest.fixture
def front(owner: QObject, link: Wired, tmp_path: Path) -> Front:
    return Front(owner, link.client, link.store, PrefsFile(tmp_path / "desktop.json", owner))


def dialogs() -> list[QDialog]:
    gc.collect()
    return [shown for shown in QApplication.topLevelWidgets() if isinstance(shown, QDialog) and shown.isVisible()]


def close_all(qapp: QApplication) -> None:
    for shown in dialogs():
        shown.close()
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert dialogs() == []


@pytest.mark.parametrize("with_window", [False, True])
def test_a_message_stays_until_it_is_read(front: Front, qapp: QApplication, with_window: bool) -> None:
    if with_window:
        front.show_status()
    front.tell("That did not work", "The worker is busy.")
    front.tell("No browser could be opened", "Open it yourself.", "details")
    qapp.processEvents()
    assert len(dialogs()) == 2
    close_all(qapp)
    front.close()


@pytest.mark.parametrize(("button", "confirmed"), [("unpair", 1), ("", 0)])
def test_unpairing_from_the_tray_alone_asks_first(
    core: ScriptedCore, front: Front, qapp: QApplication, button: str, confirmed: int
) -> None:
    core.set_status(paired())
    heard: list[bool] = []
    front.unpair_confirmed.connect(lambda: heard.append(True))
    front.ask_unpair()
    qapp.processEvents()
    (question,) = dialogs()
    made = question.findChild(QPushButton, button) if button else None
    made.click() if made is not None else question.reject()
    assert len(heard) == confirmed
    close_all(qapp)
    front.close()
