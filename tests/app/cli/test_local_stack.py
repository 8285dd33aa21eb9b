"""The processes of `stoker demo`: what a person is told when one of them does not start."""

import sys
from pathlib import Path

import pytest

from app.cli.errors import CliError
from app.cli.local_stack import OwnProcess

DYING = """
import sys
print("reading the map", file=sys.stderr)
raise RuntimeError("the well is dry")
"""


def _error_of_a_dying_process(folder: Path) -> CliError:
    process = OwnProcess("well", [sys.executable, "-c", DYING], folder / "well.log", {})
    with pytest.raises(CliError) as failed:
        process.wait_for(lambda: None, "it gave water")
    return failed.value


def test_a_process_that_does_not_start_is_told_by_its_last_words_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STOKER_DEBUG", raising=False)
    error = _error_of_a_dying_process(tmp_path)
    assert "code 1 before it gave water" in error.what
    assert error.why.split("\n  ") == ["reading the map", "RuntimeError: the well is dry"]


def test_all_it_said_is_shown_to_those_who_asked_for_tracebacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_DEBUG", "1")
    assert "Traceback" in _error_of_a_dying_process(tmp_path).why
