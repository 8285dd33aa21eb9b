"""The demo tells its story and leaves nothing behind, also when it is interrupted or cannot go on."""

import json
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.journeys.conftest import GUARD_S, SIMULATORS, eventually, job_spec, paced_spec, stoker
from worker_core.machine.spawn import clean_environment


def _start(folder: Path, spec: dict[str, object], *more: str) -> subprocess.Popen[str]:
    (folder / "tmp").mkdir()
    path = folder / "job.json"
    path.write_text(json.dumps(spec))
    (folder / "paced.py").write_bytes((SIMULATORS / "paced.py").read_bytes())
    environment = clean_environment({"TMPDIR": str(folder / "tmp")}, own=True)
    return subprocess.Popen(
        stoker("demo", "--json", "--spec", str(path), *more),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _left_of(folder: Path) -> list[str]:
    """Return the command lines of processes that still work in the demo's folder."""
    lines = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    return [line for line in lines if str(folder / "tmp") in line]


def _processes_below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_a_short_demo_brings_a_policy_home_and_ends_everything(tmp_path: Path) -> None:
    with _start(tmp_path, job_spec("short")) as demo:
        out, _ = demo.communicate(timeout=GUARD_S)
    end = json.loads(out.splitlines()[-1])
    assert (demo.returncode, end["state"]) == (0, "succeeded")
    assert Path(end["artifact"]).parent == tmp_path / "stoker-demo"
    assert {"return_before", "return_after", "steps_per_second", "job_id"} < set(end)
    assert list((tmp_path / "tmp").glob("stoker-demo-*")) == []
    assert _left_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_ends_coordinator_worker_and_job(tmp_path: Path, number: signal.Signals) -> None:
    with _start(tmp_path, paced_spec("endless")) as demo:
        assert demo.stdout is not None
        while "job_id" not in demo.stdout.readline():
            assert demo.poll() is None
        below = eventually(lambda: _three_or_more(demo), "coordinator, worker and job run")
        demo.send_signal(number)
        out, _ = demo.communicate(timeout=GUARD_S)
    assert demo.returncode == 130
    assert json.loads(out.splitlines()[-1])["state"] == "interrupted"
    eventually(lambda: not any(process.is_running() for process in below), "all of it is gone", longest_s=10)
    assert list((tmp_path / "tmp").glob("stoker-demo-*")) == []


@pytest.mark.parametrize("ready", ["coordinator serve", "account add"])
def test_a_demo_interrupted_while_it_starts_leaves_nothing(tmp_path: Path, ready: str) -> None:
    with _start(tmp_path, job_spec("early")) as demo:
        below = eventually(lambda: _below_with(demo, ready), f"{ready} runs")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            demo.send_signal(number)
        demo.communicate(timeout=GUARD_S)
    assert demo.returncode == 130
    eventually(lambda: not any(process.is_running() for process in below), "all of it is gone", longest_s=10)
    assert _left_of(tmp_path) == []
    assert list((tmp_path / "tmp").glob("stoker-demo-*")) == []


def _below_with(demo: subprocess.Popen[str], words: str) -> list[psutil.Process] | None:
    below = _processes_below(demo)
    return below if any(words in _command_of(process) for process in below) else None


def _command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""  # it has ended


def _three_or_more(demo: subprocess.Popen[str]) -> list[psutil.Process] | None:
    below = _processes_below(demo)
    return below if len(below) >= 3 else None


def test_a_demo_whose_job_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    unknown = {**job_spec("unknown"), "system": {"simulator": {"entry": "gymnasium:NoSuchWorld-v9"}}}
    with _start(tmp_path, unknown) as demo:
        out, err = demo.communicate(timeout=GUARD_S)
    assert demo.returncode == 1
    assert json.loads(out.splitlines()[-1])["state"] == "failed"
    assert "NoSuchWorld-v9" in err
    assert list((tmp_path / "tmp").glob("stoker-demo-*")) == []
    assert _left_of(tmp_path) == []


def test_a_kept_demo_goes_on_and_says_how_to_get_in(tmp_path: Path) -> None:
    with _start(tmp_path, job_spec("kept"), "--keep") as demo:
        out, _ = demo.communicate(timeout=GUARD_S)
    assert demo.returncode == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[-1]["state"] == "succeeded"
    kept = next(line for line in lines if "console" in line)
    running = [psutil.Process(kept["worker_pid"]), psutil.Process(kept["coordinator_pid"])]
    try:
        assert all(process.is_running() for process in running)
        assert kept["email"]
        assert kept["password"]
    finally:
        for process in running:
            process.terminate()
        _, alive = psutil.wait_procs(running, timeout=30)
    assert alive == []
