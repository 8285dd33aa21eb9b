"""How a person in a terminal, a service manager and the end of a session tell the worker to leave.

Ctrl-C goes step by step: finish the job, stop it at a checkpoint, end it now. TERM, and a terminal that is closed,
begin with the checkpoint; a second TERM ends at once. Each step says what the next will do.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Literal

from worker_core.core.departure import LeaveHow
from worker_core.core.worker import Worker

log = logging.getLogger(__name__)

Request = Literal["interrupt", "end"]
"""Ctrl-C, or the wish of a machine."""
_END: Request = "end"
_ORDER: tuple[LeaveHow, ...] = ("drain", "checkpoint", "now")

_WITH_JOB: dict[LeaveHow, str] = {
    "drain": "leaving once this job has finished; no other is taken. {again}: stop it at a checkpoint",
    "checkpoint": "leaving: the job saves a checkpoint and stops, to go on later. {again}: end it now",
    "now": "ending the job now; its last checkpoint stays",
}
_WITHOUT_JOB: dict[LeaveHow, str] = {
    "drain": "leaving; what is finished is delivered first. {again}: leave at once",
    "checkpoint": "leaving; what is finished is delivered first. {again}: leave at once",
    "now": "leaving at once; what is not delivered waits on this disk for the next start",
}


@dataclass(frozen=True)
class Asked:
    """How often each kind of request has come."""

    interrupts: int = 0
    ends: int = 0

    def how(self, job: bool) -> LeaveHow:
        """Return how to leave now; without a job there is no checkpoint to wait for."""
        steps: tuple[LeaveHow, ...] = _ORDER if job else ("drain", "now", "now")
        by_hand = steps[min(self.interrupts, 3) - 1] if self.interrupts else "drain"
        by_machine: LeaveHow = "drain" if not self.ends else "checkpoint" if self.ends == 1 else "now"
        return _ORDER[max(_ORDER.index(by_hand), _ORDER.index(by_machine))]


def ask(before: Asked, request: Request, job: bool) -> tuple[Asked, LeaveHow, str]:
    """Take one more request; returns how to leave now, and what to tell the person."""
    if request == "interrupt":
        asked, again = replace(before, interrupts=before.interrupts + 1), "Ctrl-C again"
    else:
        asked, again = replace(before, ends=before.ends + 1), "a second signal"
    how = asked.how(job)
    return asked, how, (_WITH_JOB if job else _WITHOUT_JOB)[how].format(again=again)


class EndSignals:
    """Obeys the signals of one core."""

    def __init__(self, worker: Worker) -> None:
        self.asked = Asked()
        self._worker = worker
        self._drained_a_job = False

    @property
    def interrupted(self) -> bool:
        """Whether a person broke off what was under way; a job that was let finish is not broken off."""
        return self.asked.interrupts > 0 and not (self.asked == Asked(interrupts=1) and self._drained_a_job)

    def obey(self, request: Request) -> None:
        """Leave as this request, together with those before it, asks."""
        job = self._worker.known.life.slot != "free"
        self.asked, how, words = ask(self.asked, request, job)
        self._drained_a_job |= how == "drain" and job
        log.warning("%s", words)
        self._worker.leave(how)

    @contextmanager
    def listening(self) -> Generator[None]:
        """Obey signals of this process while the context is open."""
        loop = asyncio.get_running_loop()
        requests: dict[int, Request] = {**dict.fromkeys(_end_signals(), _END), signal.SIGINT: "interrupt"}
        if sys.platform == "win32":

            def obey(number: int, _frame: FrameType | None) -> None:
                loop.call_soon_threadsafe(self.obey, requests[number])

            before = {number: signal.signal(number, obey) for number in requests}
        else:
            before = {number: signal.getsignal(number) for number in requests}
            for number, request in requests.items():
                loop.add_signal_handler(number, self.obey, request)
        try:
            yield
        finally:
            for number, kept in before.items():
                if sys.platform != "win32":
                    loop.remove_signal_handler(number)
                signal.signal(number, kept)


def _end_signals() -> list[int]:
    """TERM; a closed terminal, unless somebody had that ignored (nohup); on Windows a closed console or Ctrl-Break."""
    numbers: list[int] = [signal.SIGTERM]
    for name in ("SIGHUP", "SIGBREAK"):
        number: int | None = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            numbers.append(number)
    return numbers
