"""A sleep is seen by the clock, and gives network and coordinator time to come back."""

from app.desktop.presenter.waking import GAP_S, GRACE_S, Waking


def test_a_long_gap_between_two_looks_is_a_sleep() -> None:
    awake = Waking(seen=0.0, quiet_until=0.0).at(60.0).at(120.0)
    assert awake.quiet_until == 0.0
    assert awake.at(120.0 + GAP_S + 1).quiet_until == 120.0 + GAP_S + 1 + GRACE_S


def test_a_clock_that_was_set_back_keeps_nobody_quiet_for_longer() -> None:
    asleep = Waking(seen=0.0, quiet_until=0.0).at(10_000.0)
    assert asleep.at(3_000.0).quiet_until == 3_000.0 + GRACE_S
