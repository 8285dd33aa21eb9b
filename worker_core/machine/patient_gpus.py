"""Asks a GPU driver without waiting for ever: some hang in the kernel, and nothing can call such a question back."""

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from worker_core.wire.pairing import Gpu
from worker_core.wire.probe import ProbeResult
from worker_core.wire.status import GpuShown

T = TypeVar("T")

PATIENCE_S = 5.0
"""A driver that wakes a sleeping GPU takes up to two seconds."""


class GpuDriver(Protocol):
    """What may hang."""

    def facts(self) -> tuple[Gpu, ...]: ...

    def load(self) -> tuple[GpuShown, ...]: ...


class PatientGpus:
    """One question at a time, each in a thread that nobody has to wait for; meanwhile the last answers stand."""

    def __init__(self, driver: GpuDriver, patience_s: float = PATIENCE_S) -> None:
        self._driver = driver
        self._patience_s = patience_s
        self._turn = threading.Lock()
        self._asking: threading.Thread | None = None
        self._facts: tuple[Gpu, ...] = ()
        self._load: tuple[GpuShown, ...] = ()

    @property
    def silent(self) -> bool:
        """Whether the driver owes an answer for longer than is healthy."""
        return self._asking is not None and self._asking.is_alive()

    def facts(self) -> tuple[Gpu, ...]:
        """Return what identifies each GPU; after a driver fell silent what it said last."""
        self._facts = self._answer(self._driver.facts, self._facts)
        return self._facts

    def load(self) -> tuple[GpuShown, ...]:
        """Return the figures of each GPU; after a driver fell silent what it said last."""
        self._load = self._answer(self._driver.load, self._load)
        return self._load

    def scripted_probe(self, uuid: str) -> ProbeResult | None:
        """Nothing is scripted here: devices that the driver names are really tested."""
        return None

    def _answer(self, question: Callable[[], T], last: T) -> T:
        with self._turn:
            if self.silent:
                return last
            answers: list[T | BaseException] = []
            self._asking = threading.Thread(target=_ask, args=(question, answers), name="GPU driver", daemon=True)
            self._asking.start()
            self._asking.join(self._patience_s)
            if not answers:
                return last
            self._asking = None
            if isinstance(answers[0], BaseException):
                raise answers[0]
            return answers[0]


def _ask(question: Callable[[], T], answers: list[T | BaseException]) -> None:
    try:
        answers.append(question())
    except BaseException as error:  # it is raised again where the question came from
        answers.append(error)
