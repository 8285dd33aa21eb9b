"""`stoker run` as a process: its exit codes, its lock, its clients, its weight."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from worker_core.control.client import ControlClient, ControlError, CoreNotRunning
from worker_core.control.messages import PairArgs, PairOutcome
from worker_core.core import __main__ as core_main
from worker_core.core.pair_alone import CoreRunning, pair_alone
from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalFull
from worker_core.machine.paths import Paths, find_paths
from worker_core.machine.spawn import clean_environment, spawn, stoker_command
from worker_core.wire.codec import convert
from worker_core.wire.status import PairingShown

START_S = 30.0
AS_SOMEBODY_ELSE = """
import os, sys
from worker_core.core.__main__ import main
os.setuid(65534)
sys.exit(main([]))
"""


class Cores:
    """Starts cores of one home and ends them all."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.paths: Paths = find_paths(str(home))
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        environment = clean_environment({"STOKER_HOME": str(self.home), "STOKER_CREDENTIAL_STORE": "file"}, own=True)
        pipe = subprocess.PIPE
        core = spawn(stoker_command("run", *args), env=environment, stdout=pipe, stderr=pipe)
        self.started.append(core)
        return core

    def connect(self) -> ControlClient:
        deadline = time.monotonic() + START_S
        while True:
            try:
                return ControlClient.connect(self.paths)
            except CoreNotRunning:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def end(self) -> None:
        for core in self.started:
            if core.poll() is None:
                core.kill()
            core.communicate(timeout=20)


@pytest.fixture
def cores(tmp_path: Path) -> Iterator[Cores]:
    made = Cores(tmp_path / "home")
    yield made
    made.end()


def finish(core: subprocess.Popen[bytes], timeout_s: float = START_S) -> tuple[int, str]:
    _, errors = core.communicate(timeout=timeout_s)
    return core.returncode, errors.decode()


def test_an_unpaired_core_serves_its_faces_and_leaves_when_asked(cores: Cores) -> None:
    core = cores.start("--started-by", "desktop")
    with cores.connect() as client:
        status = client.status()
        assert (status.state, status.started_by, status.pid) == ("unpaired", "desktop", core.pid)
        second = cores.start()
        code, errors = finish(second)
        assert code == 4
        assert str(core.pid) in errors
        with pytest.raises(ControlError) as refused:
            client.request("unpair")
        assert refused.value.code == "not-paired"
        client.request("quit")
    code, errors = finish(core)
    assert code == 0
    assert "stoker pair" in errors
    assert "Traceback" not in errors
    assert not cores.paths.control_file.exists()


def test_one_job_only_makes_no_sense_unpaired(cores: Cores) -> None:
    code, errors = finish(cores.start("--once"))
    assert code == 3
    assert "not paired" in errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_with_the_documented_code(cores: Cores, number: int, code: int) -> None:
    core = cores.start()
    cores.connect().close()
    core.send_signal(number)
    assert finish(core)[0] == code


def test_a_core_after_a_killed_one_starts_over_its_leftovers(cores: Cores) -> None:
    first = cores.start()
    cores.connect().close()
    first.kill()
    first.communicate(timeout=20)
    assert cores.paths.control_file.exists()
    second = cores.start()
    with cores.connect() as client:
        assert client.welcome.pid == second.pid


def test_a_home_that_cannot_be_written_is_told_in_a_sentence(cores: Cores) -> None:
    cores.home.parent.mkdir(parents=True, exist_ok=True)
    cores.home.write_text("a file where the home should be")
    code, errors = finish(cores.start())
    assert code == 1
    assert "STOKER_HOME" in errors
    assert "Traceback" not in errors


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("denied", ["home", "lock"])
def test_a_home_of_somebody_else_is_a_matter_of_permission_and_not_another_worker(cores: Cores, denied: str) -> None:
    cores.home.mkdir(parents=True)
    cores.paths.data.mkdir(parents=True, exist_ok=True)
    if denied == "lock":
        os.chown(cores.paths.data, 65534, 65534)
        cores.paths.lock_file.touch(0o600)
    for folder in (*cores.home.parents, cores.home):
        if folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    environment = clean_environment({"STOKER_HOME": str(cores.home)}, own=True)
    command = [sys.executable, "-c", AS_SOMEBODY_ELSE]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 1, done.stderr.decode()
    assert "no permission" in done.stderr.decode()
    assert "runs already" not in done.stderr.decode()


def test_bad_settings_are_told_by_key(cores: Cores) -> None:
    cores.paths.config.mkdir(parents=True)
    cores.paths.settings_file.write_text('{"embedded_port": -1}')
    code, errors = finish(cores.start())
    assert code == 1
    assert "embedded_port" in errors


@pytest.mark.parametrize("verbose", [False, True])
def test_an_unforeseen_error_at_start_is_a_sentence_unless_tracebacks_were_asked_for(
    cores: Cores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verbose: bool
) -> None:
    (tmp_path / "script.json").write_text('{"wall_offset_s": "soon"}')
    monkeypatch.setenv("STOKER_SCRIPTED_SOURCES", str(tmp_path / "script.json"))
    code, errors = finish(cores.start(*(["--verbose"] if verbose else [])))
    assert code == 1
    assert "wall_offset_s" in errors
    assert ("Traceback" in errors) is verbose


def test_wrong_usage_is_exit_code_two(cores: Cores) -> None:
    code, errors = finish(cores.start("--for-ever"))
    assert code == 2
    assert "usage: stoker run" in errors


def test_an_idle_core_is_light_and_loads_neither_torch_nor_qt_nor_the_terminal() -> None:
    script = (
        "import sys, worker_core.core.__main__;"
        "heavy = {'torch', 'PySide6', 'rich', 'typer', 'click', 'pygments', 'keyring', 'numpy', 'sqlalchemy'};"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
    assert found.stdout.decode().strip() == "[]"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_an_idle_core_holds_less_than_sixty_megabytes(cores: Cores) -> None:
    core = cores.start()
    cores.connect().close()
    status = Path(f"/proc/{core.pid}/status").read_text()
    resident_kb = int(status.partition("VmRSS:")[2].split()[0])
    assert resident_kb < 60 * 1024


async def test_a_running_core_pairs_for_its_faces(cores: Cores, coordinator: Any) -> None:
    coordinator.pair_answer = coordinator.refusal("pairing-pending", error="authorization_pending")
    cores.start()

    def talk() -> tuple[PairingShown, str, str, PairOutcome, str]:
        args = PairArgs(coordinator=coordinator.url, email="ada@example.org")
        with cores.connect() as client:
            shown = convert(client.request("pair", args), PairingShown)
            with pytest.raises(ControlError) as again:
                client.request("pair", args)
            state = client.status().state
            coordinator.pair_answer = None
            outcome = convert(client.request("pair-wait", timeout_s=20), PairOutcome)
            deadline = time.monotonic() + 20
            while client.status().state != "available" and time.monotonic() < deadline:
                time.sleep(0.05)
            return shown, again.value.code, state, outcome, client.status().state

    shown, again, state, outcome, after = await asyncio.to_thread(talk)
    assert shown.user_code == "BCDF-GHJK"
    assert shown.fingerprint == "four plain short words"
    assert (again, state) == ("wrong-state", "pairing")
    assert (outcome.state, outcome.worker_name, after) == ("approved", "lathe", "available")
    assert coordinator.sessions[0].capabilities["credential_store"] == "file"
    assert "rl-session" in coordinator.sessions[0].capabilities["kinds"]


async def test_pairing_without_a_core_leaves_a_paired_home(cores: Cores, coordinator: Any) -> None:
    shown: list[PairingShown] = []
    args = PairArgs(coordinator=coordinator.url, email="ada@example.org", credential_store="file")
    outcome = await asyncio.to_thread(pair_alone, cores.paths, args, shown.append)
    assert outcome.state == "approved"
    assert shown[0].user_code == "BCDF-GHJK"
    again = await asyncio.to_thread(pair_alone, cores.paths, args, shown.append)
    assert again.state == "failed"
    assert "unpair" in again.detail
    cores.start("--once")
    await coordinator.until(lambda: coordinator.polls, timeout_s=START_S)


async def test_pairing_alone_beside_a_core_is_refused_with_its_pid(cores: Cores, coordinator: Any) -> None:
    core = cores.start()
    await asyncio.to_thread(lambda: cores.connect().close())
    args = PairArgs(coordinator=coordinator.url, email="ada@example.org", credential_store="file")
    with pytest.raises(CoreRunning) as refused:
        await asyncio.to_thread(pair_alone, cores.paths, args, lambda _: None)
    assert refused.value.pid == core.pid


@pytest.mark.parametrize("error", ["access_denied", "expired_token"])
async def test_a_pairing_that_comes_to_nothing_leaves_no_key(cores: Cores, coordinator: Any, error: str) -> None:
    coordinator.pair_answer = coordinator.refusal("pairing-pending", error=error)
    args = PairArgs(coordinator=coordinator.url, email="ada@example.org", credential_store="file")
    outcome = await asyncio.to_thread(pair_alone, cores.paths, args, lambda _: None)
    assert outcome.state in ("denied", "expired")
    assert not cores.paths.credential_file.exists()


async def test_what_is_no_coordinator_gives_no_code(cores: Cores, coordinator: Any) -> None:
    coordinator.script("POST", "/v1/pairings", *[coordinator.html()] * 9)
    args = PairArgs(coordinator=coordinator.url, email="ada@example.org", credential_store="file")
    outcome = await asyncio.to_thread(pair_alone, cores.paths, args, lambda _: None)
    assert outcome.state == "failed"
    assert "not as a Stoker coordinator does" in outcome.detail
    bad = await asyncio.to_thread(
        pair_alone, cores.paths, PairArgs(coordinator="http://example.org", email="a@b.c"), lambda _: None
    )
    assert "https" in bad.detail
    assert not cores.paths.credential_file.exists()
    assert os.listdir(cores.paths.data)


async def test_a_full_disk_at_the_very_end_is_no_failure_of_a_worker_that_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal.open(tmp_path / "state.db", boot_id="boot")
    really_close = journal.close

    async def close() -> None:
        await really_close()
        raise JournalFull("the disk is full")

    monkeypatch.setattr(journal, "close", close)
    await core_main._close(journal)
    assert "the disk is full" in caplog.text
