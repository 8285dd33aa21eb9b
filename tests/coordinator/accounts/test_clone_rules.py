"""A copied credential is caught, and nothing that can happen to an honest worker looks like one."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from bench._copied_workers import caught_after_s, false_alarm
from coordinator.accounts.clone_rules import (
    Alarm,
    Incumbent,
    Knock,
    Late,
    Newcomer,
    Numbers,
    Same,
    Standing,
    Wait,
    Welcome,
    judge,
)

NUMBERS = Numbers()
PRESENT = Incumbent("two", "boot-1", frozenset({"one"}), begun_at=1000.0, alive=True)


def verdict(newcomer: Newcomer, now: float = 2000.0, **standing: object):
    return judge(Standing(**{"incumbent": PRESENT, **standing}), newcomer, now, NUMBERS)  # pyright: ignore[reportArgumentType]


def start(name: str, *previous: str, boot: str = "boot-1") -> Newcomer:
    return Newcomer(name, boot, frozenset(previous))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30))
def test_no_loss_crash_reboot_or_sleep_makes_an_honest_worker_look_like_a_copy(seed: int) -> None:
    assert false_alarm(seed) == ""


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30))
def test_a_copy_of_a_live_disk_is_always_caught(seed: int) -> None:
    assert caught_after_s(seed) is not None


def test_the_model_would_notice_a_worker_that_names_only_its_newest_start() -> None:
    assert any(false_alarm(seed, all_ids=False) for seed in range(600))


def test_the_first_start_is_welcome() -> None:
    assert judge(Standing(), start("one"), 0.0, NUMBERS) == Welcome()


def test_the_present_start_asks_again_and_is_the_same() -> None:
    assert verdict(start("two", "one")) == Same()


def test_a_restart_that_names_the_present_start_takes_over_on_the_same_boot() -> None:
    assert verdict(start("three", "two")) == Welcome()


def test_a_start_that_does_not_name_the_present_one_is_an_alarm() -> None:
    assert verdict(start("x", "one", boot="boot-9")) == Alarm("unknown-start")
    gone = replace(PRESENT, alive=False)
    assert verdict(start("x", "one", boot="boot-9"), incumbent=gone) == Alarm("unknown-start")


def test_after_a_restore_the_present_start_proves_nothing() -> None:
    restored = replace(PRESENT, restored=True)
    assert verdict(start("nine", "eight", boot="boot-9"), incumbent=restored) == Welcome()
    assert verdict(start("nine", "two", boot="boot-9"), incumbent=restored) == Welcome()


def test_a_start_that_was_replaced_may_be_late_but_not_long() -> None:
    late = start("one")
    assert verdict(late, now=1010.0) == Late()
    assert verdict(late, now=1046.0) == Alarm("replaced-start")
    assert verdict(start("zero"), now=1500.0, replaced_at={"zero": 1490.0}) == Late()
    assert verdict(start("zero"), now=1600.0, replaced_at={"zero": 1490.0}) == Alarm("replaced-start")


def test_another_boot_waits_while_the_present_one_is_alive_and_is_welcome_when_it_is_silent() -> None:
    newcomer = start("three", "two", boot="boot-2")
    assert verdict(newcomer) == Wait(Knock(boot_id="boot-2", since=2000.0, last=2000.0))
    assert verdict(newcomer, incumbent=replace(PRESENT, alive=False)) == Welcome()


def test_another_boot_that_keeps_knocking_for_five_minutes_is_an_alarm() -> None:
    newcomer = start("three", "two", boot="boot-2")
    knocked = Knock(boot_id="boot-2", since=1700.0, last=1960.0)
    assert verdict(newcomer, now=1999.0, knock=knocked) == Wait(Knock(boot_id="boot-2", since=1700.0, last=1999.0))
    assert verdict(newcomer, now=2000.0, knock=knocked) == Alarm("second-boot")
    long_ago = Knock(boot_id="boot-2", since=1000.0, last=1100.0)
    assert verdict(newcomer, knock=long_ago) == Wait(Knock(boot_id="boot-2", since=2000.0, last=2000.0))
    other = Knock(boot_id="boot-3", since=1000.0, last=1990.0)
    assert verdict(newcomer, knock=other) == Wait(Knock(boot_id="boot-2", since=2000.0, last=2000.0))


def test_the_accused_and_what_comes_after_it_stay_outside() -> None:
    accused = frozenset({"thief"})
    assert isinstance(verdict(start("thief", "two"), accused=accused), Alarm)
    assert isinstance(verdict(start("thief-again", "two", "thief"), accused=accused), Alarm)
    assert verdict(start("three", "two"), accused=accused) == Welcome()
