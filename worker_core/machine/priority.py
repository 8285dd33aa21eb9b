"""Puts a job behind everything else on the machine, so that neither its owner nor the core's heartbeat has to wait."""

import os
import sys
from pathlib import Path

import psutil

_NICE = 10


def lower_priority(pid: int) -> None:
    """Lower the priority of a process that was just started; what it starts later inherits it.

    Where the system does not allow it, or the process has ended, nothing happens: training in competition with
    the owner is still better than no training.
    """
    try:
        _lower(pid)
    except (OSError, psutil.Error):
        return


if sys.platform == "win32":

    def _lower(pid: int) -> None:
        process = psutil.Process(pid)
        process.nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
        process.ionice(psutil.IOPRIO_LOW)

else:

    def _lower(pid: int) -> None:
        os.setpriority(os.PRIO_PROCESS, pid, max(_NICE, os.getpriority(os.PRIO_PROCESS, pid)))
        if sys.platform == "linux":
            psutil.Process(pid).ionice(psutil.IOPRIO_CLASS_BE, 7)
            lower_session(pid)


def lower_session(pid: int) -> None:
    """Put the whole session of a process behind others, where it does not stand there yet.

    Linux weighs sessions against each other and nice values only within one: without this a session of the job would
    get as much of the processor as ours, however nice the job is. One that the job makes begins without it, and the
    system takes at most ten such wishes a second; what it refused is due at the next look.
    """
    file = Path(f"/proc/{pid}/autogroup")
    try:
        # As in "/autogroup-7650 nice 0".
        if int(file.read_text().split()[-1]) < _NICE:
            file.write_text(str(_NICE))
    except (OSError, ValueError, IndexError):
        return  # no such thing here, or the process has ended
