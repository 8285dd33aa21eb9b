"""Processes that wait for each other: all come, or it is said that one does not."""

import threading
from typing import NoReturn

import numpy as np
import pytest

from worker_core.training.rl.meeting import SpinMeeting

LINE = 8


class Missed(Exception):
    pass


def fail() -> NoReturn:
    raise Missed


def test_who_comes_between_two_looks_and_speaks_behind_the_meeting_has_come() -> None:
    arrivals = np.zeros(2 * LINE, np.int64)

    def spoken() -> bool:
        arrivals[LINE] = 1
        return True

    SpinMeeting(arrivals, 0, 2, spoken, fail).meet()


def test_who_speaks_and_does_not_come_ends_the_wait() -> None:
    with pytest.raises(Missed):
        SpinMeeting(np.zeros(2 * LINE, np.int64), 0, 2, lambda: True, fail).meet()


def test_nobody_passes_a_meeting_before_all_are_there() -> None:
    arrivals = np.zeros(3 * LINE, np.int64)
    passed: list[list[int]] = [[], [], []]
    counts = [0, 0, 0]

    def come(rank: int) -> None:
        meeting = SpinMeeting(arrivals, rank, 3, lambda: False, fail)
        for _ in range(50):
            counts[rank] += 1
            meeting.meet()
            passed[rank].append(min(counts))

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(seen[number] >= number + 1 for seen in passed for number in range(50))
