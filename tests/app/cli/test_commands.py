"""Every failure reaches a person as words and a program as one document, with the documented exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.commands import main
from app.cli.errors import from_problem
from tests.app.cli.conftest import Answer, ScriptedServer
from worker_core.wire.problems import Problem

COMMANDS = [
    "demo",
    "doctor",
    "pair",
    "run",
    "app",
    "status",
    "drain",
    "stop",
    "resume",
    "give-back",
    "quit",
    "unpair",
    "login",
    "approve",
    "workers",
    "worker",
    "submit",
    "jobs",
    "job",
]


def test_help_lists_every_command_also_those_that_start_other_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f" {name} " not in shown] == []


@pytest.mark.parametrize("command", [["status"], ["job", "show"], ["submit"], ["demo"], ["pair"], ["approve"]])
def test_every_command_has_help_that_names_its_options(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["drain"], ["job"], ["job", "artifacts"]])
def test_help_shows_no_type_beside_an_option_that_takes_nothing(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert "bool" not in shown


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("stoker 0.")


def test_no_command_at_all_is_wrong_usage_and_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage" in captured.err


@pytest.mark.parametrize(
    "argv",
    [
        ["statu"],
        ["status", "--jsn"],
        ["submit"],
        ["quit", "--drain", "--now"],
        ["worker", "w", "explode"],
        ["pair", "--email", "a@b.c"],
        ["approve", "123", "--name", "x", "--yes"],
        ["approve", "BCDF-GHJK", "--name", "x", "--authorization", "soon", "--yes"],
        ["login", "--coordinator", "http://elsewhere.example"],
        ["submit", "there-is-no-such.toml"],
        ["quit", "now"],
    ],
)
def test_wrong_usage_exits_2_with_words_and_no_traceback(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("✗ ")
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("argv", [["drain"], ["stop"], ["resume"], ["give-back"], ["quit"], ["unpair"], ["status"]])
def test_commands_about_this_worker_exit_3_when_none_runs(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 3
    assert "No worker runs here." in capsys.readouterr().err


def test_status_in_json_says_not_running_with_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 3
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["state"] == "not-running"
    wanted = [
        "reasons",
        "mode",
        "worker",
        "coordinator",
        "contact_age_s",
        "authorization",
        "job",
        "gpus",
        "outbox",
        "credential_store",
        "pid",
    ]
    assert [key for key in wanted if key not in document] == []
    assert document["mode"] == {"console": None, "here": "run"}
    assert captured.err == ""


@pytest.mark.parametrize("argv", [["jobs"], ["workers"], ["job", "show", "job_1"], ["worker", "w", "drain"]])
def test_commands_for_a_coordinator_exit_3_when_not_signed_in(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*argv, "--json"]) == 3
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "not-signed-in"
    assert "stoker login" in captured.err


def _sign_in(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer, script: list[Answer]) -> None:
    server.script = script
    monkeypatch.setenv("STOKER_COORDINATOR", server.url)
    monkeypatch.setenv("STOKER_TOKEN", "token-of-a-person")


def test_a_refusal_of_the_coordinator_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    _sign_in(monkeypatch, server, [Answer.problem(404, "not-found", detail="There is no job job_1.")])
    assert main(["job", "show", "job_1", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["why"] == "There is no job job_1."
    assert "There is no job job_1." in captured.err
    assert "token-of-a-person" not in captured.err + captured.out


@pytest.mark.parametrize(
    ("title", "detail", "why"),
    [
        ("E-mail or password is wrong", "e-mail or password is wrong", ""),
        ("No pairing waits for this code", "no pairing waits for this code; 4 tries left", "4 tries left"),
        ("Not allowed", "not allowed for tokens", "not allowed for tokens"),
    ],
)
def test_a_reason_does_not_say_again_what_happened(title: str, detail: str, why: str) -> None:
    error = from_problem(Problem(title=title, status=403, code="forbidden", retryable=False, detail=detail))
    assert (error.what, error.why) == (f"{title}.", why)


def test_something_else_on_the_address_exits_3(
    monkeypatch: pytest.MonkeyPatch, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    _sign_in(monkeypatch, server, [Answer.html()])
    assert main(["jobs"]) == 3
    assert "not a Stoker coordinator" in capsys.readouterr().err


def test_pairing_with_something_that_is_no_coordinator_exits_3_and_leaves_nothing(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = [Answer.html()]
    assert main(["pair", "--coordinator", server.url, "--email", "a@b.c", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not-a-coordinator"
    assert list(Path(os.environ["STOKER_HOME"]).rglob("*")) == []


def test_a_malformed_spec_names_each_field_with_what_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "bad.toml"
    spec.write_text(
        'kind = "rl-session"\nname = "bad"\ncolour = "red"\n'
        '[system.simulator]\nentry = "gymnasium:CartPole-v1"\n[training]\ncycles = 0\nsimulators = 1000\n'
    )
    assert main(["submit", str(spec), "--json"]) == 2
    captured = capsys.readouterr()
    errors = {error["field"]: error["message"] for error in json.loads(captured.out)["error"]["errors"]}
    assert set(errors) == {"colour", "training.cycles", "training.simulators"}
    assert "64" in errors["training.simulators"]
    assert "training.cycles" in captured.err


def test_a_dry_run_prints_the_resolved_plan_and_needs_no_coordinator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "job.toml"
    spec.write_text('kind = "rl-session"\nname = "dry"\n[system.simulator]\nentry = "gymnasium:CartPole-v1"\n')
    assert main(["submit", str(spec), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"] > 0
    assert main(["submit", str(spec), "--dry-run"]) == 0
    assert "CartPole" in capsys.readouterr().out


def test_tracebacks_appear_only_on_request(
    monkeypatch: pytest.MonkeyPatch, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    _sign_in(monkeypatch, server, [Answer.problem(404, "not-found")])
    main(["job", "show", "job_1"])
    assert "Traceback" not in capsys.readouterr().err
    main(["job", "show", "job_1", "--verbose"])
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("STOKER_DEBUG", "1")
    main(["job", "show", "job_1"])
    assert "Traceback" in capsys.readouterr().err


def test_login_keeps_a_token_that_only_its_owner_can_read(
    monkeypatch: pytest.MonkeyPatch, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    meta = {"gen": 1, "api": [1, 1], "server_time": "2026-01-01T00:00:00Z", "min_worker_version": "0"}
    token = {"token": "new-token", "scopes": ["jobs"], "account": "a@b.c"}
    server.script = [Answer.of(meta), Answer.of(token), Answer.of({"items": [], "next": None})]
    with subprocess.Popen([sys.executable, "-c", "print('pass word')"], stdout=subprocess.PIPE, text=True) as typed:
        assert typed.stdout is not None
        monkeypatch.setattr(sys, "stdin", typed.stdout)
        assert main(["login", "--coordinator", server.url, "--email", "a@b.c", "--password-stdin"]) == 0
    assert json.loads(server.asked[1].body)["password"] == "pass word"
    kept = Path(os.environ["STOKER_HOME"]) / "config" / "login.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "new-token" not in capsys.readouterr().out
    assert main(["jobs", "--json"]) == 0
    assert server.asked[2].headers["authorization"] == "Bearer new-token"


def test_a_log_in_that_others_can_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    kept = Path(os.environ["STOKER_HOME"]) / "config" / "login.json"
    kept.parent.mkdir(parents=True)
    kept.write_text('{"coordinator": "https://c.example", "token": "t", "account": "a@b.c"}')
    kept.chmod(0o644)
    assert main(["jobs"]) == 1
    assert "chmod 600" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_the_output_in_silence() -> None:
    shell = f"{sys.executable} -m app.entry --help | head -c 1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=60)
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr
