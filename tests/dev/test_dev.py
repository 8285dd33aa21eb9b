"""dev.py: installs once, then starts at once; says exactly what is missing where it may not install."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def dev() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dev_under_test", ROOT / "dev.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(ROOT / "dev.py"), *words], capture_output=True, text=True, timeout=60)


def test_help_names_every_command() -> None:
    done = _run("--help")
    assert done.returncode == 0
    named = ("setup", "demo", "test", "check", "app", "bench")
    assert [name for name in named if f"  {name} " not in done.stdout] == []


@pytest.mark.parametrize("words", [(), ("tests",)])
def test_without_a_known_command_the_usage_is_shown_and_the_code_is_2(words: tuple[str, ...]) -> None:
    done = _run(*words)
    assert done.returncode == 2
    assert "usage: python3 dev.py" in done.stdout + done.stderr


def test_a_second_run_starts_its_work_in_under_three_seconds(dev: ModuleType) -> None:
    assert dev.STAMP.read_text() == dev.fingerprint(), "run `python3 dev.py setup` once after a change of versions"
    began = time.monotonic()
    assert _run("setup").returncode == 0
    assert time.monotonic() - began < 3


def test_a_change_of_the_pinned_versions_asks_for_a_new_installation(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    before = dev.fingerprint()
    assert dev.fingerprint() == before
    (tmp_path / "constraints.txt").write_text("other")
    assert dev.fingerprint() != before


def test_torch_is_pinned_exactly_and_installed_first(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[tuple[str, ...]] = []
    venv_python = tmp_path / "python"
    venv_python.touch()
    monkeypatch.setattr(dev, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(dev, "python_path", lambda: venv_python)
    monkeypatch.setattr(dev, "pip_install", lambda *what: installed.append(what))
    dev.install_python_packages()
    assert installed[0] == (dev.pinned_torch(),)
    assert installed[0][0].startswith("torch==")
    assert "[all,test,check]" in installed[1][-1]
    dev.install_python_packages()
    assert len(installed) == 2


def test_an_installation_that_failed_is_tried_again(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*what: str) -> None:
        raise dev.Stop("pip failed")

    venv_python = tmp_path / "python"
    venv_python.touch()
    monkeypatch.setattr(dev, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(dev, "python_path", lambda: venv_python)
    monkeypatch.setattr(dev, "pip_install", fail)
    with pytest.raises(dev.Stop):
        dev.install_python_packages()
    assert not (tmp_path / "stamp").exists()


def test_who_is_not_root_gets_the_exact_command_for_what_is_missing(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "missing_packages", lambda needed: ["libegl1", "xvfb"])
    monkeypatch.setattr(dev.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(dev.os, "geteuid", lambda: 1000, raising=False)
    with pytest.raises(dev.Stop) as stop:
        dev.install_system_packages({})
    assert "sudo apt-get install --yes --no-install-recommends libegl1 xvfb" in str(stop.value)


def test_setup_goes_on_without_what_only_the_desktop_and_the_tests_need(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "missing_packages", lambda needed: ["libegl1", "xvfb"])
    monkeypatch.setattr(dev.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(dev.os, "geteuid", lambda: 1000, raising=False)
    monkeypatch.setattr(dev, "install_python_packages", lambda: None)
    assert dev.main(["setup"]) == 0
    assert "sudo apt-get install --yes --no-install-recommends libegl1 xvfb" in capsys.readouterr().err
    assert dev.main(["test"]) == 1


@pytest.mark.parametrize(
    ("proof", "there"),
    [("libc.so.6", True), ("libnothing.so.9", False), ("bin:sh", True), ("bin:no-such-program", False)],
)
def test_a_library_or_program_counts_by_itself_and_not_by_its_package(dev: ModuleType, proof: str, there: bool) -> None:
    libraries = {"libc.so.6"}
    assert dev.is_there(proof, libraries) is there


def test_an_old_python_is_told_which_one_is_needed() -> None:
    text = (ROOT / "dev.py").read_text().replace("OLDEST_PYTHON = (3, 11)", "OLDEST_PYTHON = (9, 9)")
    done = subprocess.run([sys.executable, "-", "setup"], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "needs Python 9.9 or newer" in done.stderr


def test_an_unknown_benchmark_is_told_with_those_there_are() -> None:
    done = _run("bench", "nothing")
    assert done.returncode == 1
    assert "latency" in done.stderr


def test_the_continuous_check_runs_check_and_test() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "python3 dev.py check" in script
    assert "python3 dev.py test" in script


def test_a_long_silence_of_pip_is_counted_on_a_terminal_and_leaves_no_trace_elsewhere(
    dev: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with dev.time_shown("pip"):
        time.sleep(1.2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with dev.time_shown("pip"):
        time.sleep(1.2)
    shown = capsys.readouterr().err
    assert "pip works: 1 s" in shown
    assert shown.endswith("\r\x1b[K")
