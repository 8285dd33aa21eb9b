"""The doctor looks at everything a worker needs and has a cure for what is missing."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.cli.commands import main
from app.cli.desktop_session import session_faults
from app.cli.doctor import examine
from app.cli.doctor_finding import Finding
from tests.app.cli.conftest import Answer, ScriptedServer
from worker_core.machine.keystore import Saved, open_store
from worker_core.machine.paths import find_paths

CHECKED = [
    "python",
    "torch",
    "device",
    "sqlite",
    "home",
    "disk",
    "journal",
    "containment",
    "keystore",
    "worker",
    "coordinator",
    "clock",
]


def _findings() -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(find_paths())}


def _meta(offset_s: float) -> Answer:
    then = datetime.now(UTC) + timedelta(seconds=offset_s)
    return Answer.of({"gen": 1, "api": [1, 1], "server_time": then.isoformat(), "min_worker_version": "0"})


def test_every_precondition_is_in_the_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    loaded = set(sys.modules)
    code = main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert [name for name in CHECKED if name not in states] == []
    assert set(states.values()) <= {"ok", "warning", "problem"}
    assert (code, document["ok"]) == (0, True)
    assert states["torch"] == states["sqlite"] == "ok"
    assert [check["name"] for check in document["checks"] if check["state"] != "ok" and not check["cure"]] == []
    assert "torch" not in set(sys.modules) - loaded  # it was looked at in a child


@pytest.mark.parametrize(("offset_s", "state"), [(0, "ok"), (60, "warning"), (-60, "warning"), (4000, "problem")])
def test_a_clock_that_differs_from_the_coordinator_s_is_told_with_how_much(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, offset_s: float, state: str
) -> None:
    monkeypatch.setenv("STOKER_COORDINATOR", server.url)
    monkeypatch.setenv("STOKER_TOKEN", "t")
    monkeypatch.setattr("app.cli.doctor._torch", lambda paths: iter(()))  # pyright: ignore[reportUnknownLambdaType]
    server.script = lambda asked: _meta(offset_s)
    found = _findings()
    assert found["coordinator"].state == "ok"
    assert found["clock"].state == state
    if offset_s:
        assert ("behind" if offset_s > 0 else "ahead of") in found["clock"].text


def test_a_worker_with_its_key_in_a_file_needs_no_keystore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.doctor._torch", lambda paths: iter(()))  # pyright: ignore[reportUnknownLambdaType]
    paths = find_paths()
    assert isinstance(open_store(paths, "file").save("a secret"), Saved)
    monkeypatch.delenv("STOKER_CREDENTIAL_STORE")
    keystore = _findings()["keystore"]
    assert keystore.state == "warning"
    assert "in a file" in keystore.text


def test_an_unreachable_coordinator_is_a_problem_with_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_COORDINATOR", "http://127.0.0.1:9")
    monkeypatch.setenv("STOKER_TOKEN", "t")
    monkeypatch.setattr("app.cli.doctor._torch", lambda paths: iter(()))  # pyright: ignore[reportUnknownLambdaType]
    found = _findings()["coordinator"]
    assert (found.state, "http://127.0.0.1:9" in found.text) == ("problem", True)
    assert found.cure


def test_a_home_that_cannot_be_made_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr("app.cli.doctor._torch", lambda paths: iter(()))  # pyright: ignore[reportUnknownLambdaType]
    assert _findings()["home"].state == "problem"


def test_a_wrong_setting_of_the_credential_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_CREDENTIAL_STORE", "shoebox")
    monkeypatch.setattr("app.cli.doctor._torch", lambda paths: iter(()))  # pyright: ignore[reportUnknownLambdaType]
    found = _findings()["keystore"]
    assert (found.state, "shoebox" in found.text) == ("problem", True)


def test_a_session_without_display_or_tray_host_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [fault.name for fault in session_faults({})] == ["display"]
    assert [fault.name for fault in session_faults({"DISPLAY": ":0"})] == ["tray"]
    gone = {"DISPLAY": ":0", "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/none"}
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", gone["DBUS_SESSION_BUS_ADDRESS"])
    assert [fault.name for fault in session_faults(gone)] == ["tray"]


@pytest.mark.parametrize(("uid", "state"), [(0, "warning"), (1000, "ok")])
def test_a_worker_of_root_is_advised_against(uid: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert _findings()["user"].state == state
