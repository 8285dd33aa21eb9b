"""Starting programs: what they see, what they inherit, how they end."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from worker_core.machine.child_exit import wait_exit
from worker_core.machine.spawn import (
    clean_environment,
    coordinator_command,
    run_briefly,
    spawn,
    start_detached,
    stoker_command,
)

SECRETS = {
    "STOKER_TOKEN": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "MY_PASSWORD": "secret",
    "NVIDIA_API_KEY": "secret",
}


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("own", [True, False])
def test_no_secret_is_passed_on(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    set_all(monkeypatch, SECRETS)
    assert "secret" not in clean_environment(own=own).values()


def test_parts_of_stoker_get_what_a_desktop_needs_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {"STOKER_HOME": "/h", "DISPLAY": ":1", "DBUS_SESSION_BUS_ADDRESS": "bus", "XDG_RUNTIME_DIR": "/run"}
    set_all(monkeypatch, needed)
    assert clean_environment(own=True).items() >= needed.items()
    assert not clean_environment().keys() & needed.keys()
    assert clean_environment({"HOME": "/w"})["HOME"] == "/w"


def test_a_frozen_app_gives_others_their_own_libraries_back(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {"LD_LIBRARY_PATH": "/bundle", "LD_LIBRARY_PATH_ORIG": "/cuda"})
    assert clean_environment()["LD_LIBRARY_PATH"] == "/bundle"
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert clean_environment()["LD_LIBRARY_PATH"] == "/cuda"
    monkeypatch.delenv("LD_LIBRARY_PATH_ORIG")
    assert "LD_LIBRARY_PATH" not in clean_environment()


def test_a_frozen_app_starts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", "/opt/stoker/stoker")
    assert stoker_command("run") == ["/opt/stoker/stoker", "run"]
    assert coordinator_command("serve") == ["/opt/stoker/stoker-coordinator", "serve"]


def test_a_child_inherits_the_named_files_only_and_has_a_session_of_its_own(tmp_path: Path) -> None:
    kept_in, kept_out = os.pipe()
    other_in, other_out = os.pipe()
    os.set_inheritable(other_out, True)
    code = f"""
import json, os, sys
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
os.write({kept_out}, json.dumps([is_open({other_out}), os.getsid(0), os.getcwd()]).encode())
"""
    with spawn([sys.executable, "-c", code], inherit=(kept_out,), cwd=tmp_path, env=clean_environment()) as process:
        os.close(kept_out)
        with os.fdopen(kept_in) as answer:
            assert json.load(answer) == [False, process.pid, str(tmp_path)]
    os.close(other_in)
    os.close(other_out)


def test_a_short_program_gives_its_output() -> None:
    finished = run_briefly([sys.executable, "-c", "print(input())"], input=b"hello\n", timeout_s=30)
    assert (finished.code, finished.stdout.strip()) == (0, b"hello")


def test_a_program_that_hangs_is_ended() -> None:
    began = time.monotonic()
    assert run_briefly([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.5).code is None
    assert time.monotonic() - began < 20


def test_a_detached_program_is_buried_when_it_ends() -> None:
    pid = start_detached([sys.executable, "-c", "pass"])
    deadline = time.monotonic() + 20
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(pid)


async def test_waiting_for_an_exit_gives_its_code() -> None:
    assert await wait_exit(spawn([sys.executable, "-c", "raise SystemExit(7)"])) == 7
    process = spawn([sys.executable, "-c", "import time; time.sleep(60)"])
    process.kill()
    assert await wait_exit(process) == -9
    assert await wait_exit(process) == -9


def test_spawn_loads_no_asyncio_because_the_desktop_uses_it() -> None:
    code = "import sys, worker_core.machine.spawn as s, worker_core.machine.paths; print('asyncio' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.strip() == "False"
