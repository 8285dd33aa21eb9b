"""Rate limits: at most so many marks in any window, whatever the times are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from coordinator.accounts import rates
from coordinator.accounts.rates import RateBook, RateLimit
from coordinator.storage.database import Database
from coordinator.storage.schema import rate_mark
from tests.coordinator.hand_clock import HandClock
from worker_core.wire.problems import ProblemError


@given(st.lists(st.floats(0, 40), max_size=60), st.integers(1, 6))
def test_no_window_ever_holds_more_marks_than_the_limit(pauses, limit):
    clock = HandClock()
    rate = RateLimit(clock, limit, 60.0)
    passed: list[float] = []
    for pause in pauses:
        clock.time += pause
        if rate.wait_s("key") == 0:
            rate.mark("key")
            passed.append(clock.time)
    for start in passed:
        assert sum(start <= moment < start + 60.0 for moment in passed) <= limit


@given(st.lists(st.floats(0, 40), max_size=60), st.integers(1, 6))
def test_after_the_wait_it_told_a_key_passes(pauses, limit):
    clock = HandClock()
    rate = RateLimit(clock, limit, 60.0)
    for pause in pauses:
        clock.time += pause
        clock.time += rate.wait_s("key") + 1e-6
        assert rate.wait_s("key") == 0
        rate.mark("key")


def test_a_lock_lasts_from_the_last_mark_and_then_all_is_forgiven():
    clock = HandClock()
    rate = RateLimit(clock, 3, 60.0, lock_s=60.0)
    for moment in (0.0, 50.0, 55.0):
        clock.time = moment
        rate.check("key", "wait")
        rate.mark("key")
    clock.time = 114.0
    assert rate.wait_s("key") == pytest.approx(1.0)
    assert rate.left("key") == 0
    clock.time = 115.0
    assert (rate.wait_s("key"), rate.left("key")) == (0.0, 3)


def test_marks_that_are_too_old_lock_nothing():
    clock = HandClock()
    rate = RateLimit(clock, 3, 60.0, lock_s=60.0)
    for moment in (0.0, 10.0, 61.0):
        clock.time = moment
        rate.check("key", "wait")
        rate.mark("key")
    assert rate.left("key") == 1
    rate.unmark("key")
    assert rate.left("key") == 2


def test_keys_do_not_block_each_other():
    rate = RateLimit(HandClock(), 1, 60.0)
    rate.mark("one")
    rate.check("two", "wait")
    with pytest.raises(ProblemError) as refused:
        rate.check("one", "wait")
    assert refused.value.problem.retry_after_s == 60.0


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(rates, "MAX_KEYS", 3)
    rate = RateLimit(HandClock(), 1, 60.0)
    for key in "abcd":
        rate.mark(key)
    assert rate.wait_s("a") == 0
    assert rate.wait_s("d") > 0


@pytest.fixture
def database(tmp_path):
    opened = Database.open(tmp_path / "test.db")
    yield opened
    opened.close()


async def test_a_lock_survives_a_restart_and_ends_when_it_would_have(database):
    clock = HandClock()
    clock.time = 0.0
    book = RateBook(database, clock)
    rate = book.limit("codes", 3, 60.0, 100.0)
    for _ in range(3):
        rate.mark("ada")
    rate.mark("eve")
    await book.flush()
    clock.time = 50.0
    again = RateBook(database, clock)
    rate = again.limit("codes", 3, 60.0, 100.0)
    await again.load()
    assert rate.wait_s("ada") == pytest.approx(50.0)
    assert rate.left("eve") == 2
    clock.time = 101.0
    assert rate.wait_s("ada") == 0
    await again.tidy()
    assert database.read_sync(lambda conn: conn.execute(select(rate_mark)).all()) == []


async def test_a_mark_taken_back_is_taken_back_on_the_disk(database):
    clock = HandClock()
    clock.time = 0.0
    book = RateBook(database, clock)
    rate = book.limit("codes", 3, 60.0)
    rate.mark("ada")
    await book.flush()
    rate.unmark("ada")
    await book.flush()
    again = RateBook(database, clock)
    rate = again.limit("codes", 3, 60.0)
    await again.load()
    assert rate.left("ada") == 3


async def test_marks_of_a_clock_that_was_ahead_do_not_lock_for_years(database):
    clock = HandClock()
    clock.time = 1e9
    book = RateBook(database, clock)
    book.limit("codes", 1, 60.0).mark("ada")
    await book.flush()
    clock.time = 100.0
    again = RateBook(database, clock)
    rate = again.limit("codes", 1, 60.0)
    await again.load()
    assert rate.wait_s("ada") == pytest.approx(60.0)


async def test_what_could_not_be_written_is_written_the_next_time(database, monkeypatch):
    book = RateBook(database, HandClock())
    book.limit("codes", 1, 60.0).mark("ada")

    async def fail(_) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(database, "write", fail)
        with pytest.raises(OSError, match="no space"):
            await book.flush()
    await book.flush()
    assert [row.key for row in database.read_sync(lambda conn: conn.execute(select(rate_mark)).all())] == ["ada"]
