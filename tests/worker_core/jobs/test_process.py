"""Processes of a job are known again, and others are never touched."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from worker_core.jobs.process import MARK, ProcessIdentity, end_tree, find_tree, identify, is_running
from worker_core.machine.spawn import clean_environment, spawn
from worker_core.wire.ids import new_id

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with spawn(SLEEP, env=clean_environment()) as process:
        yield process
        process.kill()


def test_a_process_is_known_by_its_number_and_its_start(sleeper: "subprocess.Popen[bytes]") -> None:
    identity = identify(sleeper.pid)
    assert is_running(identity)
    assert not is_running(ProcessIdentity(sleeper.pid, identity.started + 5))
    sleeper.kill()
    deadline = time.monotonic() + 20
    while is_running(identity) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(identity)  # it is a zombie until we wait for it
    sleeper.wait()
    assert not is_running(identity)
    assert identify(sleeper.pid).started == -1.0


def test_a_tree_is_found_by_its_mark_alone() -> None:
    attempt_id = new_id("att")
    with spawn(SLEEP, env=clean_environment({MARK: attempt_id})) as process:
        assert [found.pid for found in find_tree(None, attempt_id)] == [process.pid]
        ended = end_tree(None, attempt_id, limit_s=20)
    assert (ended.killed, ended.left) == (1, ())


def test_a_session_of_another_process_with_the_old_number_is_left_alone(sleeper: "subprocess.Popen[bytes]") -> None:
    gone = ProcessIdentity(sleeper.pid, identify(sleeper.pid).started - 1000)
    assert end_tree(gone, new_id("att"), limit_s=5).killed == 0
    assert end_tree(ProcessIdentity(2**22, 1.0), new_id("att"), limit_s=5).killed == 0
    assert end_tree(None, new_id("att"), limit_s=5).killed == 0
    assert sleeper.poll() is None


def test_looking_for_a_tree_is_quick() -> None:
    began = time.process_time()
    find_tree(None, new_id("att"))
    assert time.process_time() - began < 0.5
