"""``stoker-coordinator`` as a process: first line, refusals with their exit codes, a clean end, commands beside it."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from coordinator.serve import CannotServe, check_public_url

GUARD_S = 30.0
COMMAND = [sys.executable, "-m", "coordinator"]
PASSWORD = "correct horse battery\n"

Start = Callable[..., subprocess.Popen[str]]


def run(*arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=GUARD_S, check=False)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start servers and make sure that none outlives the test."""
    processes: list[subprocess.Popen[str]] = []

    def go(data: Path, *arguments: str) -> subprocess.Popen[str]:
        command = [*COMMAND, "serve", "--data", str(data), "--port", "0", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield go
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=GUARD_S)


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())["url"]


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, float, str]:
    begun = time.monotonic()
    process.send_signal(number)
    _, said = process.communicate(timeout=GUARD_S)
    return process.returncode, time.monotonic() - begun, said


def test_the_first_line_is_the_url_and_sigterm_ends_it_cleanly(tmp_path, start):
    process = start(tmp_path / "data")
    url = url_of(process)
    assert httpx.get(f"{url}/healthz", trust_env=False, verify=False).text == "ok\n"
    code, seconds, said = end(process)
    assert (code, seconds < 5) == (0, True)
    assert "Traceback" not in said
    assert not (tmp_path / "data" / "admin.json").exists()


def test_a_person_at_a_terminal_reads_where_the_console_is_and_how_to_get_in(tmp_path):
    said = serve_on_a_terminal(tmp_path)
    first, *greeting = said.splitlines()
    url = json.loads(first)["url"]
    assert f"  The console is at {url}" in greeting
    assert "There is no account yet" in said
    assert f"account add you@example.org --data {tmp_path}" in said
    run("account", "add", "ada@example.org", "--password-stdin", "--data", tmp_path, text=PASSWORD)
    assert "It has 1 account." in serve_on_a_terminal(tmp_path)


def serve_on_a_terminal(data: Path) -> str:
    """Start a coordinator on a terminal, end it as soon as it has said its last word, and return all it said."""
    ours, theirs = os.openpty()
    command = [*COMMAND, "serve", "--port", "0", "--data", str(data)]
    said = b""
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        give_up = time.monotonic() + GUARD_S
        try:
            while b"Ctrl-C" not in said and time.monotonic() < give_up:
                if select.select([ours], [], [], 0.2)[0]:
                    said += os.read(ours, 65536)
        finally:
            process.terminate()
            process.wait(GUARD_S)
            os.close(ours)
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("order", ["before", "between", "behind"])
def test_the_data_folder_may_be_named_before_and_behind_the_command(tmp_path, order):
    words = {"before": 0, "between": 1, "behind": 3}
    command = ["account", "add", f"{order}@example.org", "--password-stdin"]
    command[words[order] : words[order]] = ["--data", str(tmp_path / "data")]
    assert run(*command, text=PASSWORD).returncode == 0
    assert (tmp_path / "data" / "coordinator.db").exists()


def test_ctrl_c_ends_it_with_130(tmp_path, start):
    process = start(tmp_path / "data")
    url_of(process)
    assert end(process, signal.SIGINT)[0] == 130


def test_an_idle_keep_alive_connection_does_not_delay_the_end(tmp_path, start):
    process = start(tmp_path / "data")
    with httpx.Client(base_url=url_of(process), trust_env=False, verify=False) as client:
        client.get("/healthz")
        code, seconds, _ = end(process)
    assert (code, seconds < 5) == (0, True)


def test_accounts_and_tokens_are_made_before_and_beside_a_server(tmp_path, start):
    data = tmp_path / "data"
    before = run("account", "add", "ada@example.org", "--password-stdin", "--data", data, text=PASSWORD)
    assert before.returncode == 0, before.stderr
    process = start(data)
    url = url_of(process)
    beside = run("account", "add", "bob@example.org", "--password-stdin", "--data", data, text=PASSWORD)
    assert beside.returncode == 0, beside.stderr
    for email in ("ada@example.org", "bob@example.org"):
        made = run("token", "add", email, "--data", data)
        token = made.stdout.splitlines()[-1]
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{url}/v1/workers", headers=headers, trust_env=False, verify=False).status_code == 200
    end(process)
    stored = run("token", "add", "bob@example.org", "--data", data)
    assert stored.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "text", "word"),
    [
        (("token", "add", "nobody@example.org"), "", "no account"),
        (("account", "add", "no-at", "--password-stdin"), PASSWORD, "e-mail"),
        (("account", "add", "a@b.example", "--password-stdin"), "short\n", "8 to 1024"),
    ],
)
def test_a_refusal_is_one_sentence_and_exit_1(tmp_path, arguments, text, word):
    done = run(*arguments, "--data", tmp_path / "data", text=text)
    assert done.returncode == 1
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_server_on_the_same_folder_leaves_with_4(tmp_path, start):
    process = start(tmp_path / "data")
    url_of(process)
    second = run("serve", "--data", tmp_path / "data", "--port", 0)
    assert second.returncode == 4
    assert f"process {process.pid}" in second.stderr
    assert second.stdout == ""
    assert (tmp_path / "data" / "admin.json").exists()
    end(process)


def test_an_occupied_port_is_said_with_its_cure_and_exit_1(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--data", tmp_path / "data", "--port", port)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_settings_file_and_a_damaged_key_are_named(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "coordinator.toml").write_text("no_such_key = 1")
    assert "no_such_key" in run("serve", "--data", data, "--port", 0).stderr
    (data / "coordinator.toml").unlink()
    (data / "coordinator-key.pem").write_text("garbage")
    damaged = run("serve", "--data", data, "--port", 0)
    assert damaged.returncode == 1
    assert "coordinator-key.pem" in damaged.stderr


@pytest.mark.parametrize(
    ("host", "public_url", "works"),
    [
        ("127.0.0.1", None, True),
        ("localhost", None, True),
        ("::1", None, True),
        ("127.0.0.1", "https://stoker.example.org", True),
        ("0.0.0.0", "https://stoker.example.org/path", True),
        ("0.0.0.0", None, False),
        ("192.168.1.4", "http://192.168.1.4:8765", False),
        ("127.0.0.1", "http://stoker.example.org", False),
        ("127.0.0.1", "stoker.example.org", False),
    ],
)
def test_plain_http_stays_on_this_machine(host, public_url, works):
    if works:
        check_public_url(host, public_url)
    else:
        with pytest.raises(CannotServe):
            check_public_url(host, public_url)


def test_other_machines_are_refused_by_the_command_too(tmp_path):
    done = run("serve", "--data", tmp_path / "data", "--host", "0.0.0.0", "--port", 0)
    assert done.returncode == 1
    assert "--public-url https://" in done.stderr


def test_a_killed_server_gives_its_folder_free(tmp_path, start):
    first = start(tmp_path / "data")
    url_of(first)
    first.kill()
    first.communicate(timeout=GUARD_S)
    second = start(tmp_path / "data")
    assert url_of(second)
    assert end(second)[0] == 0


def test_a_folder_of_another_kind_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = run("serve", "--data", tmp_path / "file", "--port", 0)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_usage_errors_leave_with_2():
    assert run("serve", "--port", "many").returncode == 2
    assert run().returncode == 2
