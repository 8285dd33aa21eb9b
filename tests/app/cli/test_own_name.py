"""A command that we tell people to type works where they are."""

import os
import sys
from pathlib import Path

import pytest

from app.cli.own_name import typed_as


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose `.venv` holds our commands, with nothing of it on the search path."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "stoker"):
        (programs / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("PATH", os.defpath)
    return tmp_path


def test_in_a_clone_the_command_is_its_path_from_here(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone)
    assert typed_as() == str(Path(".venv/bin/stoker"))


def test_elsewhere_the_command_is_its_whole_path(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clone / "elsewhere").mkdir()
    monkeypatch.chdir(clone / "elsewhere")
    assert typed_as() == str(clone / ".venv/bin/stoker")


def test_on_the_search_path_the_plain_name_is_enough(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(clone / ".venv/bin"))
    assert typed_as() == "stoker"
