"""One core per home, told apart by a lock that no crash leaves behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from worker_core.machine.instance_lock import LockHeld, lock_holder, take_lock

HOLDER = """
import sys, time
from pathlib import Path
from worker_core.machine.instance_lock import take_lock
lock = take_lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_process_is_refused_and_told_the_first(tmp_path: Path) -> None:
    path = tmp_path / "home" / "core.lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LockHeld) as caught:
            take_lock(path)
        assert caught.value.pid == holder.pid == lock_holder(path)
        assert str(holder.pid) in str(caught.value)
        holder.kill()
    assert lock_holder(path) is None
    take_lock(path).release()


def test_a_lock_can_be_given_back(tmp_path: Path) -> None:
    path = tmp_path / "core.lock"
    assert lock_holder(path) is None
    lock = take_lock(path)
    with pytest.raises(LockHeld):
        take_lock(path)
    lock.release()
    lock.release()
    take_lock(path).release()
    assert path.stat().st_mode & 0o777 == 0o600
