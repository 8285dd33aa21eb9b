"""A driver that hangs holds up nobody, and what was known of its GPUs stays."""

import threading
import time
from collections.abc import Iterator

import pytest

from worker_core.machine.patient_gpus import PatientGpus
from worker_core.wire.pairing import Gpu
from worker_core.wire.status import GpuShown

HANG_GUARD_S = 30.0


class Driver:
    """A driver that answers until it is told to hang."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.asked = 0

    def facts(self) -> tuple[Gpu, ...]:
        return (Gpu(uuid="GPU-1", name="Card"),)

    def load(self) -> tuple[GpuShown, ...]:
        self.asked += 1
        number = self.asked
        assert self.answers.wait(HANG_GUARD_S)
        return (GpuShown(uuid="GPU-1", name="Card", busy_pct=float(number)),)


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.answers.set()


def test_a_driver_that_hangs_is_asked_once_and_its_last_answers_stand(driver: Driver) -> None:
    gpus = PatientGpus(driver, patience_s=0.05)
    known = gpus.load()
    driver.answers.clear()
    assert [gpus.load() for _ in range(50)] == [known] * 50
    assert gpus.silent
    assert driver.asked == 2
    assert gpus.facts() == ()  # never asked before, and nobody waits for it now


def test_a_driver_that_wakes_up_again_is_asked_again(driver: Driver) -> None:
    gpus = PatientGpus(driver, patience_s=0.05)
    driver.answers.clear()
    gpus.load()
    assert gpus.silent
    driver.answers.set()
    ends_at = time.monotonic() + HANG_GUARD_S
    while gpus.silent:
        assert time.monotonic() < ends_at
        time.sleep(0.01)
    assert gpus.load()[0].busy_pct == 2
    assert not gpus.silent


def test_an_error_of_the_driver_reaches_who_asked() -> None:
    class Broken(Driver):
        def load(self) -> tuple[GpuShown, ...]:
            raise OSError("no such library")

    gpus = PatientGpus(Broken())
    with pytest.raises(OSError, match="no such library"):
        gpus.load()
    assert not gpus.silent
