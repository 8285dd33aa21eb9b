"""Bad input: a clear message and the documented exit code, and nothing left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.conftest import EMAIL, GUARD_S, Ran, Stack, job_spec, run_command, start_stack, stoker
from worker_core.machine.spawn import coordinator_command

NO_HOME = {name: value for name, value in os.environ.items() if not name.startswith("STOKER_")}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One coordinator for all; its codes expire after a second and a half."""
    started = start_stack(tmp_path_factory.mktemp("stack"), pairing_s=1.5)
    try:
        yield started
    finally:
        started.end()


def test_a_code_that_was_never_given_is_refused(shared: Stack) -> None:
    refused = shared.command("approve", "BBBB-BBBB", "--name", "ghost", "--json")
    assert (refused.code, refused.document["error"]["code"]) == (1, "code-not-found")
    assert "15 minutes" in refused.err
    assert shared.client.workers() == []


def test_a_code_nobody_approves_expires_and_leaves_no_key(shared: Stack, tmp_path: Path) -> None:
    words = ("pair", "--coordinator", shared.coordinator.url, "--email", EMAIL, "--json")
    expired = shared.command(*words, home=tmp_path / "home")
    code, decided = expired.documents
    assert code["expires_in"] <= 1.5
    assert (expired.code, decided["state"]) == (1, "expired")
    assert "expired" in expired.err
    assert list((tmp_path / "home").rglob("credential*")) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pairing_ended_from_outside_takes_its_code_back_and_leaves_no_key(
    shared: Stack, tmp_path: Path, number: signal.Signals
) -> None:
    words = ("pair", "--coordinator", shared.coordinator.url, "--email", f"{number.name}@example.org", "--json")
    environment = shared.environment(tmp_path / "home")
    with subprocess.Popen(
        stoker(*words), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as pairing:
        assert pairing.stdout is not None
        assert "user_code" in pairing.stdout.readline()
        pairing.send_signal(number)
        _, said = pairing.communicate(timeout=GUARD_S)
    assert pairing.returncode == 130
    assert "Traceback" not in said
    assert list((tmp_path / "home").rglob("credential*")) == []


def test_pairing_with_nobody_there_is_told_and_leaves_no_key(shared: Stack, tmp_path: Path) -> None:
    words = ("pair", "--coordinator", "http://127.0.0.1:9", "--email", EMAIL)
    failed = shared.command(*words, home=tmp_path / "home")
    assert failed.code == 3
    assert "Cannot reach the coordinator at http://127.0.0.1:9" in failed.err
    assert not (tmp_path / "home").exists()


def _run_job(stack: Stack, folder: Path, spec: dict[str, object]) -> tuple[Ran, str]:
    path = folder / "job.json"
    path.write_text(json.dumps(spec))
    ended = stack.command("submit", str(path), "--wait", "--json")
    return ended, ended.documents[0]["job_id"]


def test_jobs_that_cannot_work_fail_with_class_and_reason_and_the_worker_goes_on(stack: Stack, tmp_path: Path) -> None:
    stack.worker("box")
    unknown = job_spec("unknown", system={"simulator": {"entry": "gymnasium:NoSuchWorld-v9"}})
    ended, job_id = _run_job(stack, tmp_path, unknown)
    assert (ended.code, ended.documents[-1]["state"]) == (1, "failed")
    job = stack.client.job(job_id)
    assert "NoSuchWorld-v9" in (job.attempts[0].error or "")
    assert job.attempts[0].error_class == "bad-spec"

    (tmp_path / "broken.py").write_text("def make():\n    raise RuntimeError('the well is dry')\n")
    raising = job_spec("raising", system={"simulator": {"entry": "broken:make"}}, files=["broken.py"])
    ended, job_id = _run_job(stack, tmp_path, raising)
    assert (ended.code, ended.documents[-1]["state"]) == (1, "failed")
    job = stack.client.job(job_id)
    assert (job.attempts[0].error_class, len(job.attempts)) == ("exception", 1)
    assert "the well is dry" in job.reason
    assert "broken.py" in stack.command("job", "logs", job_id).out

    ended, _ = _run_job(stack, tmp_path, job_spec("fine"))
    assert ended.code == 0


def test_a_second_core_in_the_same_home_names_the_first_and_exits_4(shared: Stack, tmp_path: Path) -> None:
    first = shared.start_core(tmp_path / "home")
    second = shared.command("run", home=tmp_path / "home")
    assert second.code == 4
    assert str(first.pid) in second.err
    assert "Traceback" not in second.err


def test_an_unpaired_core_that_should_run_once_exits_3(shared: Stack, tmp_path: Path) -> None:
    ended = shared.command("run", "--once", home=tmp_path / "home")
    assert ended.code == 3
    assert "stoker pair" in ended.err


def test_a_home_that_cannot_be_written_is_told(shared: Stack) -> None:
    # Linux has one folder that even root cannot write; elsewhere a file stands where the folder should be.
    home = Path("/sys/kernel/stoker") if sys.platform == "linux" else Path(os.devnull) / "home"
    for words in (("run",), ("pair", "--coordinator", shared.coordinator.url, "--email", EMAIL)):
        ended = shared.command(*words, home=home)
        assert ended.code == 1
        assert str(home) in ended.err
        assert "Traceback" not in ended.err


def test_a_desktop_without_a_display_exits_3(tmp_path: Path) -> None:
    gone = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    environment = {name: value for name, value in NO_HOME.items() if name not in gone}
    ended = run_command(stoker("app"), {**environment, "STOKER_HOME": str(tmp_path)})
    assert ended.code == 3
    assert "display" in ended.err
    assert "Traceback" not in ended.err


def test_an_occupied_port_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = coordinator_command("serve", "--data", str(tmp_path / "data"), "--port", port, "--json")
        ended = run_command(command, NO_HOME)
    assert ended.code == 1
    assert port in ended.err
    assert "Traceback" not in ended.err


def test_plain_http_on_an_open_address_is_refused(tmp_path: Path) -> None:
    command = coordinator_command("serve", "--data", str(tmp_path / "data"), "--host", "0.0.0.0", "--json")
    ended = run_command(command, NO_HOME)
    assert ended.code in (1, 2)
    assert "--public-url" in ended.err


def test_control_c_leaves_a_followed_job_running(shared: Stack, tmp_path: Path) -> None:
    spec = tmp_path / "job.json"
    spec.write_text('{"kind":"rl-session","name":"a","system":{"simulator":{"entry":"gymnasium:CartPole-v1"}}}')
    command = stoker("submit", str(spec), "--wait", "--json")
    with subprocess.Popen(
        command, env=shared.environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        job_id = json.loads(following.stdout.readline())["job_id"]
        following.send_signal(signal.SIGINT)
        _, said = following.communicate(timeout=GUARD_S)
    assert following.returncode == 130
    assert job_id in said
    assert shared.client.job(job_id).state == "queued"
