"""A heartbeat number that comes twice with different content is noticed; late and repeated requests are not."""

import secrets

from coordinator.accounts import beats
from coordinator.accounts.beats import LATE_S, REMEMBERED, BeatWatch
from tests.coordinator.hand_clock import HandClock


def test_the_same_heartbeat_twice_is_a_repeated_request_and_another_of_its_number_a_copy() -> None:
    watch = BeatWatch(HandClock())
    assert not watch.repeats("w", "ses", 1, b"one")
    assert not watch.repeats("w", "ses", 1, b"one")
    assert watch.repeats("w", "ses", 1, b"other")


def test_numbers_begin_anew_with_each_connection_and_each_worker() -> None:
    watch = BeatWatch(HandClock())
    watch.repeats("w", "ses-1", 1, b"one")
    assert not watch.repeats("w", "ses-2", 1, b"other")
    assert not watch.repeats("v", "ses-2", 1, b"third")


def test_a_number_far_behind_is_a_copy_unless_all_came_within_minutes() -> None:
    clock = HandClock()
    watch = BeatWatch(clock)
    for n in range(10, 10 + REMEMBERED):
        assert not watch.repeats("w", "ses", n, secrets.token_bytes(4))
    assert not watch.repeats("w", "ses", 1, b"late")
    clock.time += LATE_S + 1
    assert watch.repeats("w", "ses", 2, b"from a copy that lags behind")


def test_what_is_remembered_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(beats, "MAX_CONNECTIONS", 10)
    watch = BeatWatch(HandClock())
    for number in range(50):
        for n in range(100):
            watch.repeats(f"w{number}", "ses", n, b"x")
    assert len(watch._workers) == 10
    assert all(len(kept.digests) <= REMEMBERED for kept in watch._workers.values())
