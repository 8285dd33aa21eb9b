"""A job's tree is measured whole and cheaply."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from worker_core.jobs import tree_use
from worker_core.jobs.tree_use import read_tree_use

FAMILY = "sleep 60 & (sleep 60; true) & echo ready; wait"


@pytest.fixture
def root():
    with subprocess.Popen(["sh", "-c", FAMILY], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        for member in [*psutil.Process(process.pid).children(recursive=True), process]:
            member.kill()


@pytest.mark.parametrize("tells_children", [True, False])
def test_every_process_of_the_tree_counts(root: int, tells_children: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if tells_children and not Path("/proc/thread-self/children").exists():
        tells_children = False
    monkeypatch.setattr(tree_use, "_TELLS_CHILDREN", tells_children)
    give_up = time.monotonic() + 30
    while (use := read_tree_use(root, None, 1 << 40)).processes < 4 and time.monotonic() < give_up:
        time.sleep(0.05)  # the inner shell starts its child a moment later
    assert use.processes == 4
    assert use.memory_bytes > 0


def test_a_tree_that_has_ended_uses_nothing() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert read_tree_use(done.pid, None, 1 << 40).memory_bytes == 0


@pytest.mark.parametrize("name", ["a b kB", "1 kB", "x\nRssAnon: 0 kB", "\udcff kB"])
def test_a_process_cannot_hide_what_it_uses_behind_its_name(name: str) -> None:
    code = (
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(15, os.fsencode(sys.argv[1])); "
        "eaten = b'x' * (64 << 20); print('ready', flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, name], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert read_tree_use(process.pid, None, 1 << 40).memory_bytes >= 64 << 20
        process.kill()
