"""Children that nobody waits for any more are buried all the same."""

import subprocess
import sys
import time

import psutil

from worker_core.machine.child_exit import bury


def test_a_child_for_which_nobody_waits_any_more_leaves_no_zombie() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    bury(process)
    bury(process)  # whoever else thinks so too does no harm
    deadline = time.monotonic() + 60
    while process.returncode is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.returncode == 0
    assert not psutil.pid_exists(process.pid)
