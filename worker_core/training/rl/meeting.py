"""Where the processes of one training wait for each other, hundreds of times a second.

Who waits looks at the shared memory for a few microseconds, then lets others run, then sleeps: where the computer's
owner, or another job, uses the cores, nothing is burnt that they could have had.
"""

import os
import time
from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

_LINE = 8
"""Numbers in a line of the processor's cache."""
_LOOKS = 300
_YIELDS = 200
_NAP_S = 0.0002
_CHECK_EVERY = 256
_yield = getattr(os, "sched_yield", lambda: time.sleep(0))


class SpinMeeting:
    """A meeting of the processes that share ``arrivals``.

    ``spoken`` tells whether another process said something, which it does only behind a meeting, or is gone; then
    whoever it is will not come any more, and ``fail`` raises what became of it.

    It rests on other processors seeing writes in the order in which they were made, which x86 promises.
    """

    def __init__(
        self,
        arrivals: NDArray[np.int64],
        rank: int,
        processes: int,
        spoken: Callable[[], bool],
        fail: Callable[[], NoReturn],
    ) -> None:
        self._arrivals = arrivals.data
        self._mine = rank * _LINE
        self._others = [other * _LINE for other in range(processes) if other != rank]
        self._spoken, self._fail = spoken, fail
        self._count = 0

    def meet(self) -> None:
        """Return when all processes have come here as often as this one."""
        self._count = count = self._count + 1
        arrivals = self._arrivals
        arrivals[self._mine] = count
        for other in self._others:
            if arrivals[other] < count:
                self._wait(other, count)

    def _wait(self, other: int, count: int) -> None:
        arrivals = self._arrivals
        for _ in range(_LOOKS):
            if arrivals[other] >= count:
                return
        looks = 0
        while arrivals[other] < count:
            looks += 1
            if looks < _YIELDS:
                _yield()
            else:
                time.sleep(_NAP_S)
            # It may have come between our two looks, and have said what it says behind the meeting.
            if looks % _CHECK_EVERY == 0 and self._spoken() and arrivals[other] < count:
                self._fail()
