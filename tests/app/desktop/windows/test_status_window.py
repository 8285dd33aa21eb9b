"""The status window carries every command of the tray menu and tells what it shows with its age."""

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QLabel, QPushButton

from app.desktop.control.store import WorkerStore
from app.desktop.presenter.menu import menu
from app.desktop.presenter.situation import Link, Situation
from app.desktop.windows.status import StatusWindow
from tests.desktop.scripted_core import ScriptedCore, paired, training
from tests.desktop.wiring import Wired
from worker_core.control.messages import Snapshot

Wait = Callable[..., None]


def texts(window: StatusWindow) -> str:
    return "\n".join(shown.text() for shown in window.findChildren(QLabel) if shown.isVisible())


def test_every_command_of_the_menu_is_a_button(link: Wired, owner: QObject) -> None:
    window = StatusWindow(link.store)
    buttons = {made.objectName() for made in window.findChildren(QPushButton)}
    commands = {item.id for item in menu(Situation()) if not item.is_separator} - {
        "headline",
        "detail",
        "next",
        "status",
    }
    assert commands <= buttons
    window.deleteLater()


def test_a_button_gives_its_command_and_only_when_it_can(
    core: ScriptedCore, link: Wired, owner: QObject, wait: Wait
) -> None:
    window = StatusWindow(link.store)
    given: list[str] = []
    window.commanded.connect(given.append)
    window.show()
    core.set_status(paired())
    wait(lambda: "Available" in texts(window))
    buttons = {made.objectName(): made for made in window.findChildren(QPushButton)}
    assert not buttons["resume"].isEnabled()
    buttons["drain"].click()
    buttons["resume"].click()
    assert given == ["drain"]
    window.hide()
    window.deleteLater()


def test_a_lost_core_leaves_facts_with_their_age(core: ScriptedCore, link: Wired, owner: QObject, wait: Wait) -> None:
    window = StatusWindow(link.store)
    window.show()
    core.set_status(training())
    wait(lambda: "lunar lander" in texts(window))
    core.close()
    wait(lambda: "Not running" in texts(window))
    assert "As of" in texts(window)
    assert "lunar lander" not in texts(window)
    window.hide()
    window.deleteLater()


def test_pairing_has_the_focus_as_soon_as_the_worker_is_known_to_be_new(link: Wired, owner: QObject) -> None:
    store = WorkerStore(owner)
    window = StatusWindow(store)
    window.show()
    status = link.store.situation.live
    assert status is not None
    store.set_link(Link.CONNECTED, "")
    store.take_snapshot(Snapshot(rev=1, status=status))
    focused = window.focusWidget()
    assert focused is not None
    assert focused.objectName() == "pair"
    window.hide()
    window.deleteLater()
