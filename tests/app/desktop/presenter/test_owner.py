"""Why the owner's rules hold jobs back is said in words, with what it waits for."""

from datetime import datetime
from typing import get_args

import pytest

from app.desktop.presenter.owner import rule_in_words, rules_in_words
from app.desktop.presenter.situation import Link, Situation
from app.desktop.presenter.status import show
from app.desktop.presenter.upcoming import upcoming
from app.desktop.presenter.wording import reason_in_words
from worker_core.wire.owner_rules import RuleName
from worker_core.wire.status import JobShown, ModesShown, OwnerShown, RuleShown, WorkerStatus

NOW = datetime(2026, 6, 1, 12)
TONIGHT = datetime(2026, 6, 1, 20).timestamp()


def paused(*rules: RuleShown, here: str = "run", **facts: object) -> WorkerStatus:
    owner = OwnerShown(mode="stop", rules=rules, **facts)  # type: ignore[arg-type]
    reasons = tuple(f"owner:{rule.rule}" for rule in rules)
    return WorkerStatus(state="paused", owner=owner, reasons=reasons, mode=ModesShown(here=here))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (RuleShown(rule="hours", until=TONIGHT), "Paused until 20:00, outside the hours you set."),
        (RuleShown(rule="heat", value=84.4), "GPU 84 °C, cooling down."),
        (RuleShown(rule="in-use", value=500.0), "Waiting: you are using this computer."),
        (RuleShown(rule="program", detail="blender"), "Waiting: blender is running."),
        (RuleShown(rule="of-tomorrow"), "Paused by your rule “of-tomorrow”."),
    ],
)
def test_each_rule_says_what_it_waits_for(rule: RuleShown, words: str) -> None:
    assert rules_in_words(paused(rule), NOW) == words


def test_all_that_holds_is_said_once_beside_what_a_person_asked_for() -> None:
    status = paused(RuleShown(rule="heat", value=84.0), RuleShown(rule="battery"), here="drain")
    shown = show(Situation(link=Link.CONNECTED, status=status), NOW)
    assert shown.detail == "Drained on this computer. GPU 84 °C, cooling down. Waiting for mains power."


def test_a_rule_that_is_off_for_want_of_a_reading_is_said() -> None:
    assert "that rule is off" in rules_in_words(paused(RuleShown(rule="battery"), unknown=("in-use",)), NOW)


def test_every_rule_has_a_sentence() -> None:
    for rule in get_args(RuleName):
        assert rule_in_words(rule)
        assert reason_in_words(f"owner:{rule}") == rule_in_words(rule)


def test_the_hours_are_what_comes_next() -> None:
    assert (
        upcoming(paused(RuleShown(rule="hours", until=TONIGHT), changes_at=TONIGHT), NOW)
        == "Takes jobs again at 20:00."
    )
    job = JobShown(id="j", attempt=1, epoch=1, kind="k", name="n", eta_s=9 * 3600)
    running = WorkerStatus(state="training", job=job, owner=OwnerShown(changes_at=TONIGHT))
    assert upcoming(running, NOW) == "Your hours end at 20:00."
