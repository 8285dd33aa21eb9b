"""A job that stands still is noticed from inside, and the log says where it stood."""

import time
from collections.abc import Iterator

import pytest

from worker_core.training.stall import StallWatch, StepTimes


class Work:
    """A job that can be made to stand still."""

    def __init__(self) -> None:
        self.ticked_at = 0.0
        self.step = 7
        self.excused = False
        self.stalls: list[int] = []
        self.recoveries: list[float] = []
        self.watch = StallWatch(
            self,
            StepTimes(),
            0.1,
            is_excused=lambda: self.excused,
            on_stall=lambda step, _seconds: self.stalls.append(step),
            on_recovery=self.recoveries.append,
        )

    def tick(self) -> None:
        self.ticked_at = time.monotonic()

    def until(self, wanted: list[int] | list[float], within_s: float = 20.0) -> None:
        deadline = time.monotonic() + within_s
        while not wanted:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    made.watch.start()
    yield made
    made.watch.close()


def test_a_stall_is_told_once_with_its_stacks_and_its_end(work: Work, capfd: pytest.CaptureFixture[str]) -> None:
    work.tick()
    work.until(work.stalls)
    time.sleep(0.3)
    assert work.stalls == [7]
    assert work.recoveries == []
    work.tick()
    work.until(work.recoveries)
    assert "test_stall.py" in capfd.readouterr().err


def test_a_job_that_waits_for_its_core_does_not_stand_still(work: Work) -> None:
    work.excused = True
    work.tick()
    time.sleep(0.4)
    assert work.stalls == []
    work.excused = False
    work.until(work.stalls)


def test_a_job_that_has_not_begun_does_not_stand_still(work: Work) -> None:
    time.sleep(0.3)
    assert work.stalls == []


def test_patience_is_ten_times_the_usual_step_and_never_less_than_asked() -> None:
    times = StepTimes()
    assert times.patience_s(120) == 120
    for seconds in (20.0, 21.0, 22.0, 500.0):
        times.add(seconds, 1)
    times.add(5.0, 0)
    assert times.patience_s(120) == 215
    for _ in range(100):
        times.add(1.0, 1000)
    assert times.patience_s(120) == 120
