"""However a benchmark ends, nobody reads a traceback and nothing that it started lives on."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
GUARD_S = 120.0


def _start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(folder)}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_benchmark_ends_all_it_started_without_a_traceback(
    tmp_path: Path, number: signal.Signals
) -> None:
    with _start("idle", folder=tmp_path) as bench:
        give_up = time.monotonic() + GUARD_S
        while len(below := psutil.Process(bench.pid).children(recursive=True)) < 2 and time.monotonic() < give_up:
            time.sleep(0.05)
        bench.send_signal(number)
        out, err = bench.communicate(timeout=GUARD_S)
    assert (bench.returncode, out, "Traceback" in err) == (130, "", False)
    _, alive = psutil.wait_procs(below, timeout=10)
    assert alive == []
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_benchmark_is_told_with_those_there_are(tmp_path: Path) -> None:
    with _start("nothing", folder=tmp_path) as bench:
        _, err = bench.communicate(timeout=GUARD_S)
    assert bench.returncode == 2
    assert {"latency", "learn", "overhead"} <= set(err.split("one of ")[1].strip().split(", "))
