"""Pairing as a person goes through it: form, code, outcome; each failure says what to do."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QObject, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QCheckBox, QLabel, QLineEdit, QPushButton, QRadioButton, QWidget
from shiboken6 import isValid

from app.desktop.windows.pairing import PairingWindow
from tests.desktop.scripted_core import ScriptedCore, paired, unpaired, waiting
from tests.desktop.wiring import Wired
from worker_core.control.messages import ErrorBody, PairOutcome

Wait = Callable[..., None]


class Hand:
    """Uses a window by what a person, or a screen reader, finds on it."""

    def __init__(self, window: QWidget) -> None:
        self.window = window

    def field(self, name: str) -> QLineEdit:
        return next(edit for edit in self.window.findChildren(QLineEdit) if edit.accessibleName() == name)

    def button(self, text: str) -> QPushButton:
        found = [
            made
            for made in self.window.findChildren(QPushButton)
            if made.isVisible() and made.text().replace("&", "") == text
        ]
        assert found, f"no button {text!r}"
        return found[0]

    def click(self, text: str) -> None:
        QTest.mouseClick(self.button(text), Qt.MouseButton.LeftButton)

    def texts(self) -> str:
        return "\n".join(shown.text() for shown in self.window.findChildren(QLabel) if shown.isVisible())


@pytest.fixture
def opened(link: Wired, owner: QObject) -> Iterator[tuple[Hand, PairingWindow]]:
    window = PairingWindow(link.client, link.store, "den-workstation")
    window.show()
    yield Hand(window), window
    if isValid(window):
        window.close()


def fill(hand: Hand) -> None:
    QTest.keyClicks(hand.field("Coordinator"), "train.example.org")
    QTest.keyClicks(hand.field("E-mail of your account"), "ada@example.org")


def test_a_code_is_shown_large_with_countdown_and_words_and_can_be_copied(
    core: ScriptedCore, opened: tuple[Hand, PairingWindow], wait: Wait
) -> None:
    hand, _ = opened
    fill(hand)
    hand.click("Get a code")
    wait(lambda: "BCDF-GHJK" in hand.texts())
    assert core.asked("pair") == [
        {
            "coordinator": "https://train.example.org",
            "email": "ada@example.org",
            "name": "den-workstation",
            "credential_store": None,
        }
    ]
    assert "amber canyon violet harbor" in hand.texts()
    wait(lambda: "14:5" in hand.texts())
    hand.click("Copy")
    assert QApplication.clipboard().text() == "BCDF-GHJK"
    spelled = [shown.accessibleName() for shown in hand.window.findChildren(QLabel) if shown.isVisible()]
    assert "Pairing code: B C D F, G H J K" in spelled


def test_the_approval_page_opens_at_the_address_the_coordinator_gave(
    core: ScriptedCore, opened: tuple[Hand, PairingWindow], wait: Wait
) -> None:
    hand, window = opened
    pages: list[str] = []
    window.open_page.connect(pages.append)
    core.set_status(waiting())
    wait(lambda: "BCDF-GHJK" in hand.texts())
    hand.click("Open the approval page")
    assert pages == ["https://train.example.org/pair?code=BCDFGHJK"]


def test_an_approval_ends_the_waiting(core: ScriptedCore, opened: tuple[Hand, PairingWindow], wait: Wait) -> None:
    hand, window = opened
    core.set_status(waiting())
    wait(lambda: core.asked("pair-wait"))
    core.outcome.set()
    core.set_status(paired())
    wait(lambda: "den-workstation is paired" in hand.texts())
    closed: list[bool] = []
    window.closed.connect(lambda: closed.append(True))
    hand.click("Done")
    assert closed


@pytest.mark.parametrize(("state", "headline"), [("expired", "The code has expired"), ("denied", "Not approved")])
def test_after_an_end_without_approval_one_click_gives_a_new_code(
    core: ScriptedCore, opened: tuple[Hand, PairingWindow], wait: Wait, state: str, headline: str
) -> None:
    hand, _ = opened
    fill(hand)
    hand.click("Get a code")
    wait(lambda: core.asked("pair-wait"))
    core.outcome_is = PairOutcome(state=state)  # type: ignore[arg-type]
    core.outcome.set()
    core.set_status(unpaired())
    wait(lambda: headline in hand.texts())
    core.outcome.clear()
    hand.click("Get a new code")
    wait(lambda: len(core.asked("pair")) == 2)
    wait(lambda: "BCDF-GHJK" in hand.texts())


def test_a_canceled_pairing_goes_back_to_the_form(
    core: ScriptedCore, opened: tuple[Hand, PairingWindow], wait: Wait
) -> None:
    hand, _ = opened
    fill(hand)
    hand.click("Get a code")
    wait(lambda: "BCDF-GHJK" in hand.texts())
    hand.click("Cancel pairing")
    wait(lambda: "Pair this computer" in hand.texts())
    assert core.asked("pair-cancel")
    assert hand.field("E-mail of your account").text() == "ada@example.org"


def test_a_pairing_that_cannot_be_canceled_goes_on_waiting_once(
    core: ScriptedCore, opened: tuple[Hand, PairingWindow], wait: Wait
) -> None:
    hand, _ = opened
    core.set_status(waiting())
    wait(lambda: core.asked("pair-wait"))
    core.errors["pair-cancel"] = ErrorBody(code="busy", text="Wait a moment.")
    hand.click("Cancel pairing")
    wait(lambda: "Wait a moment." in hand.texts())
    core.set_status(waiting(expires_in_s=800.0))
    wait(lambda: "Wait a moment." not in hand.texts())
    assert len(core.asked("pair-wait")) == 1


@pytest.mark.parametrize(
    ("code", "title"),
    [("unreachable", "The coordinator could not be reached"), ("refused", "The coordinator refused")],
)
def test_a_coordinator_that_is_none_is_said_in_words(
    core: ScriptedCore, opened: tuple[Hand, PairingWindow], wait: Wait, code: str, title: str
) -> None:
    hand, _ = opened
    core.errors["pair"] = ErrorBody(code=code, text="It answered with a web page.")  # type: ignore[arg-type]
    fill(hand)
    hand.click("Get a code")
    wait(lambda: title in hand.texts())
    assert "It answered with a web page." in hand.texts()
    assert hand.button("Get a code").isEnabled()


def test_a_fault_in_the_form_is_shown_at_its_field_and_nobody_is_asked(
    core: ScriptedCore, opened: tuple[Hand, PairingWindow]
) -> None:
    hand, _ = opened
    QTest.keyClicks(hand.field("Coordinator"), "http://train.example.org")
    QTest.keyClick(hand.field("Coordinator"), Qt.Key.Key_Return)
    assert "Use https://train.example.org" in hand.texts()
    QTest.keyClicks(hand.field("Coordinator"), "x")
    assert "Use https" not in hand.texts()
    assert core.asked("pair") == []


def test_this_computer_sets_up_a_coordinator_and_pairs_with_it(
    core: ScriptedCore, opened: tuple[Hand, PairingWindow], wait: Wait
) -> None:
    hand, window = opened
    next(choice for choice in window.findChildren(QRadioButton) if "This computer" in choice.text()).click()
    assert not hand.field("Coordinator").isVisible()
    QTest.keyClicks(hand.field("E-mail of your account"), "ada@example.org")
    QTest.keyClicks(hand.field("New password for the console"), "correct horse battery")
    next(iter(window.findChildren(QCheckBox))).click()
    hand.click("Get a code")
    wait(lambda: core.asked("pair"))
    assert core.asked("coordinator-setup") == [{"email": "ada@example.org", "password": "correct horse battery"}]
    assert core.asked("pair")[0]["coordinator"] == "http://127.0.0.1:8470"
    assert core.asked("pair")[0]["credential_store"] == "file"


def test_a_pairing_started_elsewhere_is_shown_here(
    core: ScriptedCore, opened: tuple[Hand, PairingWindow], wait: Wait
) -> None:
    hand, _ = opened
    core.set_status(waiting("XZWV-TSRQ"))
    wait(lambda: "XZWV-TSRQ" in hand.texts())


def test_without_the_worker_the_form_waits_for_it(owner: QObject) -> None:
    from app.desktop.control.client import ControlClient
    from app.desktop.control.store import WorkerStore

    window = PairingWindow(ControlClient(owner), WorkerStore(owner), "den")
    window.show()
    hand = Hand(window)
    assert not hand.button("Get a code").isEnabled()
    assert "Waiting for the worker" in hand.texts()
    window.close()


def test_every_field_and_button_has_a_name_a_mnemonic_and_a_place_in_the_tab_order(
    opened: tuple[Hand, PairingWindow],
) -> None:
    _, window = opened
    for edit in window.findChildren(QLineEdit):
        assert edit.accessibleName()
    for made in window.findChildren(QPushButton):
        assert "&" in made.text()
        assert made.focusPolicy() & Qt.FocusPolicy.TabFocus
