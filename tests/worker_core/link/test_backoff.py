"""Retries: jitter up to the cap, respect for Retry-After, no loop over what cannot be cured."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_core.link.backoff import Backoff, may_help, spread, until_answered
from worker_core.link.faults import TransportFault
from worker_core.wire.problems import CODES, problem


@given(failures=st.integers(1, 200), cap=st.floats(2, 300), seed=st.integers())
def test_a_wait_is_at_least_a_second_and_never_above_the_cap(failures: int, cap: float, seed: int) -> None:
    backoff = Backoff(cap, random.Random(seed))
    waits = [backoff.next_wait() for _ in range(failures)]
    assert all(1 <= wait <= cap for wait in waits)
    assert all(wait <= 2**n for n, wait in enumerate(waits, 1) if n < 9)


def test_at_the_cap_workers_still_spread_out() -> None:
    backoff = Backoff(60.0)
    waits = {round(backoff.next_wait(), 3) for _ in range(50)}
    assert len(waits) > 30


@given(st.floats(0, 3600))
def test_what_the_coordinator_asks_is_a_floor(asked: float) -> None:
    wait = Backoff(60.0).next_wait(problem("rate-limited", retry_after_s=asked))
    assert asked <= wait <= asked * 1.25
    assert asked <= spread(asked) <= asked * 1.25


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> float:
        return self.now_s


def test_thirty_seconds_of_health_start_again_from_short_waits_and_less_does_not() -> None:
    time = Time()
    backoff = Backoff(60.0, now=time.now)
    for _ in range(20):
        backoff.next_wait()
    backoff.works()
    time.now_s += 29
    backoff.works()
    backoff.next_wait()
    assert backoff.failures == 21
    backoff.works()
    time.now_s += 31
    assert backoff.next_wait() <= 2


@given(st.integers())
def test_a_coordinator_that_accepts_and_closes_a_hundred_times_is_asked_less_and_less(seed: int) -> None:
    time = Time()
    backoff = Backoff(60.0, random.Random(seed), time.now)
    waits: list[float] = []
    for _ in range(100):
        backoff.works()
        time.now_s += 0.05
        waits.append(backoff.next_wait())
        time.now_s += waits[-1]
    assert max(waits[20:]) > 45
    assert sum(waits[20:]) / 80 > 20


@pytest.mark.parametrize("seed", range(20))
def test_ten_minutes_of_refusal_cost_forty_attempts_at_most_and_differ_between_workers(seed: int) -> None:
    def attempts(source: random.Random) -> list[float]:
        now_s, backoff, times = 0.0, Backoff(60.0, source), list[float]()
        while now_s < 600:
            times.append(now_s)
            now_s += backoff.next_wait()
        return times

    one, other = attempts(random.Random(seed)), attempts(random.Random(seed + 1000))
    assert 5 < len(one) <= 40
    assert one[1:] != other[1:]


def test_after_two_minutes_of_refusals_every_worker_polls_again_within_a_minute_and_not_all_at_once() -> None:
    returns: list[float] = []
    for seed in range(20):
        backoff, now_s = Backoff(60.0, random.Random(seed)), 0.0
        while now_s < 120:
            now_s += backoff.next_wait(problem("draining"))
        returns.append(now_s - 120)
    assert max(returns) <= 60
    assert len({round(when) for when in returns}) > 10


@pytest.mark.parametrize("code", CODES)
def test_a_permanent_refusal_is_not_tried_again(code: str) -> None:
    status, _, _, retryable = CODES[code]
    assert may_help(problem(code)) == (retryable or status >= 500 or status == 429)


async def test_it_repeats_until_it_is_answered_and_no_longer() -> None:
    waits: list[float] = []
    faults = [TransportFault("refused", "no"), problem("draining"), None]

    async def call() -> str:
        fault = faults.pop(0)
        if fault is not None:
            raise fault
        return "here"

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    assert await until_answered(call, Backoff(4.0), sleep, tries=5) == "here"
    assert len(waits) == 2


async def test_it_gives_up_after_its_tries_and_at_once_on_a_permanent_refusal() -> None:
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        raise TransportFault("timeout", "slow") if calls < 100 else problem("forbidden")

    async def sleep(_: float) -> None:
        return

    with pytest.raises(TransportFault):
        await until_answered(call, Backoff(4.0), sleep, tries=3)
    assert calls == 3
    calls = 99
    with pytest.raises(Exception, match="Not allowed"):
        await until_answered(call, Backoff(4.0), sleep, tries=3)
    assert calls == 100
