"""`stoker diagnostics`: one file for a report, without secrets, whatever is broken here."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from app.cli import diagnostics
from app.cli.commands import main
from worker_core.journal.journal import Journal
from worker_core.link.identity import WorkerKey
from worker_core.machine.keystore import FileStore, Saved
from worker_core.machine.paths import Paths, find_paths

PROXY_PASSWORD = "pass-of-the-proxy"
ENV_SECRET = "value-of-the-variable"


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(diagnostics, "examine", lambda _paths: [])  # doctor has tests of its own, and takes its time
    made = find_paths()
    for folder in (made.config, made.data, made.logs):
        folder.mkdir(mode=0o700, parents=True)
    return made


def write(out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Make a bundle and return what the command said and what is in the file."""
    assert main(["diagnostics", str(out), "--json"]) == 0
    with zipfile.ZipFile(out) as bundle:
        return json.loads(capsys.readouterr().out), {name: bundle.read(name) for name in bundle.namelist()}


def test_the_bundle_lists_what_is_in_it_and_works_where_nothing_ever_ran(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, files = write(tmp_path / "out.zip", capsys)
    named = {entry["name"]: entry["size_bytes"] for entry in said["files"]}
    assert {name: len(data) for name, data in files.items() if name != "contents.json"} == named
    assert json.loads(files["contents.json"])["files"] == said["files"]
    assert "No worker runs here" in json.loads(files["status.json"])["missing"]
    assert "no journal" in json.loads(files["journal.json"])["missing"]
    assert (tmp_path / "out.zip").stat().st_mode & 0o077 == 0


def test_a_file_that_is_there_already_stays_as_it_is(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.zip"
    out.write_bytes(b"mine")
    assert main(["diagnostics", str(out)]) == 1
    assert out.read_bytes() == b"mine"
    assert "is there already" in capsys.readouterr().err


def test_a_broken_journal_and_broken_settings_are_told_not_met(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths.state_db.write_bytes(b"this is no database" * 1000)
    paths.settings_file.write_text("{not json")
    _, files = write(tmp_path / "out.zip", capsys)
    assert "cannot be read" in json.loads(files["journal.json"])["missing"]
    assert "settings.json" in json.loads(files["settings.json"])["missing"]


async def test_the_journal_is_told_in_figures_and_by_what_was_set_aside(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal.open(paths.state_db, boot_id="one")
    await journal.set_aside("att_1", "event 3: metrics loss of step 7", "bad-event")
    _, files = write(tmp_path / "out.zip", capsys)  # while the journal is open, as beside a running core
    await journal.close()
    summary = json.loads(files["journal.json"])
    assert summary["set_aside"][0]["what"] == "event 3: metrics loss of step 7"
    assert (summary["attempts_total"], summary["version"]) == (0, summary["newest_known_version"])
    _, files = write(tmp_path / "after.zip", capsys)
    assert json.loads(files["journal.json"])["set_aside"] == summary["set_aside"]


def test_no_secret_of_this_home_is_in_the_bundle(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = WorkerKey.generate()
    assert FileStore(paths.credential_file).save(key.secret) == Saved()
    (paths.config / "login.json").write_text('{"coordinator": "x", "token": "token-of-the-person", "account": "a"}')
    monkeypatch.setenv("MY_API_KEY", ENV_SECRET)
    settings = {"secret_env": ["MY_API_KEY"], "proxy": f"http://ada:{PROXY_PASSWORD}@proxy.example:3128"}
    paths.settings_file.write_text(json.dumps(settings))
    private = json.loads(key.secret)["d"]
    secrets = [private, "token-of-the-person", ENV_SECRET, PROXY_PASSWORD]
    (paths.logs / "core.log").write_text("\n".join(f"somebody logged {secret}" for secret in secrets))
    said, files = write(tmp_path / "out.zip", capsys)
    everything = b"\n".join([*files.values(), json.dumps(said).encode()])
    assert [secret for secret in secrets if secret.encode() in everything] == []
    assert files["logs/core.log"].count(b"[secret]") == len(secrets)
    assert b"proxy.example" in files["settings.json"]


def test_only_the_end_of_a_long_log_is_taken_in_whole_lines(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (paths.logs / "core.log").write_text("".join(f"line {number:06}\n" for number in range(40_000)))
    _, files = write(tmp_path / "out.zip", capsys)
    log = files["logs/core.log"]
    assert len(log) <= diagnostics.MAX_LOG_BYTES
    assert log.startswith(b"line ")
    assert log.endswith(b"line 039999\n")


def test_a_login_for_the_proxy_is_left_out_however_short_it_is(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths.settings_file.write_text(json.dumps({"proxy": "http://joe:abc@proxy.example.org:3128"}))
    _, files = write(tmp_path / "out.zip", capsys)
    assert json.loads(files["settings.json"])["proxy"] == "proxy.example.org:3128"
