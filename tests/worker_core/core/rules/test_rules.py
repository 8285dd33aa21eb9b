"""The owner's rules say when this machine trains, and keep to it over sleep, clock steps and flapping readings."""

import itertools
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker_core.core.rules.evaluate import Memory, Moment, Verdict, evaluate
from worker_core.core.rules.hours import allowed, next_change
from worker_core.core.rules.latch import HOUR_S, MOST_SWITCHES, Latch, step
from worker_core.machine.owner_reading import OwnerReading
from worker_core.wire.owner_rules import DAYS, Hours, OwnerRules

NIGHTS = (Hours(begin="20:00", end="08:00"),)
WEEKENDS = (Hours(begin="00:00", end="00:00", days=("sat", "sun")),)


pytestmark = pytest.mark.usefixtures("berlin")


def at(*parts: int) -> float:
    return datetime(*parts).timestamp()  # type: ignore[arg-type]


class Watch:
    """Looks again and again, as the core does."""

    def __init__(self, rules: OwnerRules, wall: float = 0.0) -> None:
        self.rules = rules
        self.memory = Memory()
        self.moment = Moment(wall or at(2026, 6, 1, 12), 0.0)
        self.modes: list[str] = []

    def look(self, after_s: float = 0.0, **reading: object) -> Verdict:
        self.moment = Moment(self.moment.wall + after_s, self.moment.now + after_s)
        found = OwnerReading(**reading)  # type: ignore[arg-type]
        verdict, self.memory = evaluate(self.moment, self.rules, found, self.memory)
        self.modes.append(verdict.mode)
        return verdict


def test_without_rules_the_machine_trains_whenever_there_is_a_job() -> None:
    assert Watch(OwnerRules()).look() == Verdict()


@pytest.mark.parametrize(
    ("moment", "trains", "change"),
    [
        (datetime(2026, 6, 1, 12), False, datetime(2026, 6, 1, 20)),
        (datetime(2026, 6, 1, 20), True, datetime(2026, 6, 2, 8)),
        (datetime(2026, 6, 2, 7, 59), True, datetime(2026, 6, 2, 8)),
        (datetime(2026, 6, 2, 8), False, datetime(2026, 6, 2, 20)),
        (datetime(2026, 3, 29, 1, 30), True, datetime(2026, 3, 29, 8)),  # summer time begins in this night
        (datetime(2026, 10, 25, 1, 30), True, datetime(2026, 10, 25, 8)),  # and ends in this
    ],
)
def test_hours_over_midnight_hold_by_the_clock_on_the_wall(moment: datetime, trains: bool, change: datetime) -> None:
    assert allowed(NIGHTS, moment.timestamp()) == trains
    assert next_change(NIGHTS, moment.timestamp()) == change.timestamp()


@pytest.mark.parametrize(
    ("span", "trains"), [(Hours(begin="02:30", end="08:00"), True), (Hours(begin="20:00", end="02:30"), False)]
)
def test_a_border_in_the_hour_that_comes_twice_counts_once(span: Hours, trains: bool) -> None:
    border = at(2026, 10, 25, 2, 30)
    assert allowed((span,), border - 1) is not trains
    assert {allowed((span,), border + minutes * 60) for minutes in range(90)} == {trains}
    later = datetime(2026, 10, 25, 8 if trains else 20).timestamp()
    assert next_change((span,), border) == later


@pytest.mark.parametrize("span", [Hours(begin="02:30", end="08:00"), Hours(begin="20:00", end="02:30")])
def test_a_border_in_the_hour_that_is_skipped_comes_all_the_same(span: Hours) -> None:
    noon, modes = at(2026, 3, 28, 12), list[bool]()
    for minutes in range(24 * 60):
        modes.append(allowed((span,), noon + 60 * minutes))
    assert sum(a != b for a, b in itertools.pairwise(modes)) == 2


def test_hours_of_chosen_days_meet_at_midnight_without_a_gap() -> None:
    assert next_change(WEEKENDS, at(2026, 6, 6, 12)) == at(2026, 6, 8)
    assert next_change(WEEKENDS, at(2026, 6, 8, 12)) == at(2026, 6, 13)
    always = (Hours(begin="06:00", end="06:00"),)
    assert allowed(always, at(2026, 6, 1, 3))
    assert next_change(always, at(2026, 6, 1, 3)) is None


def test_the_end_of_the_hours_stops_or_drains_as_the_owner_chose_and_says_until_when() -> None:
    verdict = Watch(OwnerRules(hours=NIGHTS)).look()
    assert (verdict.mode, verdict.rules[0].rule, verdict.rules[0].until) == ("stop", "hours", at(2026, 6, 1, 20))
    assert Watch(OwnerRules(hours=NIGHTS, after_hours="drain")).look().mode == "drain"


def test_the_first_input_pauses_at_once_and_the_machine_trains_again_after_the_minutes_of_rest() -> None:
    watch = Watch(OwnerRules(idle_minutes=10))
    assert watch.look(idle_s=3600.0).mode == "run"
    verdict = watch.look(5, idle_s=1.0)
    assert (verdict.mode, verdict.rules[0].rule, verdict.rules[0].value) == ("stop", "in-use", 599.0)
    assert watch.look(590, idle_s=591.0).mode == "stop"
    assert watch.look(10, idle_s=601.0).mode == "run"


def test_idleness_that_nothing_tells_switches_its_rule_off_and_says_so() -> None:
    verdict = Watch(OwnerRules(idle_minutes=10)).look(idle_s=None)
    assert (verdict.mode, verdict.unknown) == ("run", ("in-use",))


def test_battery_stops_at_once_and_mains_have_to_stay_for_a_while() -> None:
    watch = Watch(OwnerRules())
    assert watch.look(on_battery=True).mode == "stop"
    assert watch.look(10, on_battery=False).mode == "stop"
    assert watch.look(29, on_battery=False).mode == "stop"
    assert watch.look(2, on_battery=False).mode == "run"
    assert Watch(OwnerRules(pause_on_battery=False)).look(on_battery=True).mode == "run"
    assert Watch(OwnerRules()).look(on_battery=None).unknown == (), "a machine without a battery lacks nothing"


def test_a_battery_that_is_told_only_now_and_then_makes_nothing_flap() -> None:
    watch = Watch(OwnerRules())
    for second in range(1200):
        watch.look(3, on_battery=True if second % 2 else None)
    assert sum(a != b for a, b in itertools.pairwise(watch.modes)) == 1
    assert watch.look(60, on_battery=None).mode == "stop"
    assert watch.look(31, on_battery=None).mode == "run"


def test_heat_has_to_last_and_ends_only_ten_degrees_lower_for_a_minute() -> None:
    watch = Watch(OwnerRules(max_gpu_c=84.0))
    assert watch.look(hottest_gpu_c=90.0).mode == "run"
    assert watch.look(29, hottest_gpu_c=90.0).mode == "run"
    assert watch.look(1, hottest_gpu_c=90.0).mode == "stop"
    assert watch.look(300, hottest_gpu_c=75.0).mode == "stop"
    assert watch.look(1, hottest_gpu_c=73.0).mode == "stop"
    assert watch.look(59, hottest_gpu_c=73.0).mode == "stop"
    assert watch.look(1, hottest_gpu_c=73.0).mode == "run"


def test_a_named_program_pauses_whatever_its_case_and_ending() -> None:
    watch = Watch(OwnerRules(programs=("Blender",)))
    verdict = watch.look(programs=("bash", "blender.exe"))
    assert (verdict.mode, verdict.rules[0].detail) == ("stop", "Blender")
    assert watch.look(1, programs=("bash",)).mode == "stop"
    assert watch.look(31, programs=("bash",)).mode == "run"


def test_a_network_that_is_paid_by_volume_lets_the_running_job_finish() -> None:
    watch = Watch(OwnerRules(pause_on_metered=True))
    watch.look(metered=True)
    assert watch.look(11, metered=True).mode == "drain"


def test_all_rules_that_hold_are_named_and_the_strictest_counts() -> None:
    watch = Watch(OwnerRules(hours=NIGHTS, after_hours="drain", programs=("game",)))
    verdict = watch.look(programs=("game",), on_battery=True)
    assert {rule.rule for rule in verdict.rules} == {"hours", "battery", "program"}
    assert verdict.mode == "stop"


def test_a_clock_that_is_set_changes_hours_and_nothing_else() -> None:
    watch = Watch(OwnerRules(hours=NIGHTS))
    assert watch.look(on_battery=True).mode == "stop"
    watch.moment = replace(watch.moment, wall=at(2026, 6, 1, 21))
    assert [rule.rule for rule in watch.look(1, on_battery=False).rules] == ["battery"]
    watch.moment = replace(watch.moment, wall=at(2020, 1, 1, 12))
    assert {rule.rule for rule in watch.look(31, on_battery=False).rules} == {"hours"}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.floats(0.1, 400)), max_size=200), st.floats(0, 60), st.floats(0, 90))
def test_no_rule_switches_more_than_six_times_in_any_hour(
    history: list[tuple[bool, float]], enter_s: float, leave_s: float
) -> None:
    latch, now, switched = Latch(), 0.0, list[float]()
    for wanted, pause_s in history:
        now += pause_s
        before = latch.held
        latch = step(latch, wanted, now, enter_s=enter_s, leave_s=leave_s)
        if latch.held != before:
            switched.append(now)
            assert latch.held == wanted
        if wanted and enter_s == 0:
            assert latch.held, "what keeps the machine free is never put off"
        assert len(latch.switches) <= MOST_SWITCHES
    for begin in switched:
        assert sum(begin <= moment < begin + HOUR_S for moment in switched) <= MOST_SWITCHES


SPAN = st.builds(
    Hours,
    begin=st.sampled_from(["00:00", "02:30", "08:00", "20:00", "23:59"]),
    end=st.sampled_from(["00:00", "02:30", "08:00", "20:00", "23:59"]),
    days=st.lists(st.sampled_from(DAYS), min_size=1, max_size=7, unique=True).map(tuple),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(SPAN, min_size=1, max_size=4).map(tuple), st.floats(1767225600, 1798761600))
def test_the_next_change_is_a_change_and_nothing_changes_before_it(spans: tuple[Hours, ...], moment: float) -> None:
    change = next_change(spans, moment)
    now = allowed(spans, moment)
    until = change if change is not None else moment + 7 * 86400
    assert change is None or (change > moment and allowed(spans, change) != now)
    probes = [moment + share * (until - moment) for share in (0.1, 0.5, 0.9, 0.999)]
    assert all(allowed(spans, probe) == now for probe in probes)
