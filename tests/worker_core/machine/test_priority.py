"""Jobs come after everything else on the machine."""

import os
import sys
from pathlib import Path

import psutil

from worker_core.machine.priority import lower_priority
from worker_core.machine.spawn import spawn


def test_a_process_and_its_session_are_put_behind_the_others() -> None:
    with spawn([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        lower_priority(process.pid)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= 10
        assert psutil.Process(process.pid).ionice().value == 7
        autogroup = Path(f"/proc/{process.pid}/autogroup")
        assert not autogroup.exists() or autogroup.read_text().rstrip().endswith("nice 10")
        process.kill()


def test_a_process_that_has_ended_is_no_error() -> None:
    with spawn([sys.executable, "-c", "pass"]) as process:
        process.wait(timeout=60)
    lower_priority(process.pid)
