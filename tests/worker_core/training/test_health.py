"""What is found wrong with a training, when, and what is done about it."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_core.training.health import (
    EXPLODED,
    LEAST,
    MAX_ROLLBACKS,
    WINDOW,
    Finding,
    HealthState,
    Update,
    judge,
    rolled_back,
)
from worker_core.wire.spec import HealthRule

ROLL_BACK = HealthRule(nan="rollback", gradient="rollback")
FINE = Update(0.1, 1.0, weights_finite=True)
BROKEN = Update(math.nan, 1.0, weights_finite=False)
EXPLODING = Update(0.1, 1.5 * EXPLODED, weights_finite=True)


def settled() -> HealthState:
    state = HealthState()
    assert [judge(state, FINE, HealthRule()) for _ in range(WINDOW)] == [None] * WINDOW
    return state


def found(state: HealthState, update: Update, rule: HealthRule | None = None) -> Finding:
    finding = judge(state, update, rule or HealthRule())
    assert finding is not None
    return finding


@pytest.mark.parametrize(
    ("update", "flag", "words"),
    [
        (Update(math.nan, 1.0, weights_finite=True), "nan", "the loss is NaN"),
        (Update(math.inf, 1.0, weights_finite=True), "nan", "the loss is infinite"),
        (Update(-math.inf, 1.0, weights_finite=True), "nan", "the loss is infinite"),
        (Update(0.1, 1.0, weights_finite=False), "nan", "a weight is no number"),
        (Update(0.1, math.nan, weights_finite=True), "nan", "a gradient is no number"),
        (EXPLODING, "gradient", "their norm is 150, usually it is about 1"),
    ],
)
def test_each_trouble_has_its_name_and_its_sentence(update: Update, flag: str, words: str) -> None:
    finding = found(settled(), update)
    assert finding.flag == flag
    assert words in finding.text


def test_a_trouble_that_lasts_is_told_once_and_one_that_comes_back_again() -> None:
    state = settled()
    assert found(state, EXPLODING)
    assert judge(state, EXPLODING, HealthRule()) is None
    assert judge(state, FINE, HealthRule()) is None
    assert found(state, EXPLODING)


def test_the_first_updates_are_not_judged_by_their_norm() -> None:
    state = HealthState()
    for _ in range(LEAST - 1):
        judge(state, FINE, HealthRule())
    assert judge(state, EXPLODING, HealthRule()) is None


def test_by_default_nan_stops_the_job_and_an_explosion_is_a_warning() -> None:
    assert found(settled(), BROKEN).action == "stop"
    assert found(settled(), EXPLODING).action == "warn"


def test_after_three_roll_backs_the_job_is_stopped_and_each_halved_the_learning_rate() -> None:
    state = settled()
    for _ in range(MAX_ROLLBACKS):
        assert found(state, BROKEN, ROLL_BACK).action == "rollback"
        rolled_back(state)
    assert state.learning_rate_share == 0.125
    assert found(state, BROKEN, ROLL_BACK).action == "stop"


@given(
    st.lists(
        st.builds(Update, loss=st.floats(), grad_norm=st.floats(min_value=0) | st.just(math.nan)),
        max_size=80,
    ),
    st.integers(0, 79),
)
def test_a_job_resumed_anywhere_finds_what_one_that_was_never_killed_finds(updates: list[Update], cut: int) -> None:
    straight, resumed = HealthState(), HealthState()
    for number, update in enumerate(updates):
        if number == cut:
            # Through the text of a checkpoint, which refuses what strict JSON cannot hold.
            text = msgspec.json.encode(msgspec.to_builtins(resumed))
            assert all(math.isfinite(norm) for norm in resumed.norms)
            resumed = msgspec.json.decode(text, type=HealthState)
        assert judge(straight, update, ROLL_BACK) == judge(resumed, update, ROLL_BACK)
        assert len(straight.norms) <= WINDOW
