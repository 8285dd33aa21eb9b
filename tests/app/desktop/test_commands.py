"""A command that worked in part, or not at all, says so."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QObject

from app.desktop.commands import Commands
from app.desktop.presenter.answers import UNPAIRED_HERE_ONLY
from tests.desktop.scripted_core import ScriptedCore, paired
from tests.desktop.wiring import Wired
from worker_core.control.messages import ErrorBody

Wait = Callable[..., None]


class Told:
    """What a person is told."""

    def __init__(self, commands: Commands) -> None:
        self.messages: list[tuple[str, str]] = []
        for signal in (commands.refused, commands.partly_done):
            signal.connect(self.take)

    def take(self, headline: str, sentence: str) -> None:
        self.messages.append((headline, sentence))


@pytest.mark.parametrize(("confirmed", "messages"), [(False, [UNPAIRED_HERE_ONLY]), (True, [])])
def test_an_unpairing_the_coordinator_did_not_hear_of_is_told(
    core: ScriptedCore,
    link: Wired,
    owner: QObject,
    wait: Wait,
    confirmed: bool,
    messages: list[tuple[str, str]],
) -> None:
    core.unpair_confirmed = confirmed
    core.set_status(paired())
    wait(lambda: (status := link.store.situation.live) is not None and status.state == "available")
    commands = Commands(owner, link.client, link.store)
    told = Told(commands)
    commands.unpair()
    wait(lambda: (status := link.store.situation.live) is not None and status.state == "unpaired")
    assert told.messages == messages


def test_a_command_the_worker_refuses_is_told_in_its_words(
    core: ScriptedCore, link: Wired, owner: QObject, wait: Wait
) -> None:
    core.errors["mode"] = ErrorBody(code="failed", text="The disk is full.")
    commands = Commands(owner, link.client, link.store)
    told = Told(commands)
    commands.give("drain")
    wait(lambda: told.messages)
    assert told.messages == [("That did not work", "The disk is full.")]
