"""The first moments of the `stoker` command."""

import sys
from types import ModuleType

import pytest

from app import entry


class _Loading(ModuleType):
    """A part that is still being loaded when Ctrl-C comes."""

    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("word", "part"),
    [("jobs", "app.cli.commands"), ("run", "worker_core.core.__main__"), ("app", "app.desktop.__main__")],
)
def test_control_c_while_a_command_loads_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], word: str, part: str
) -> None:
    monkeypatch.setitem(sys.modules, part, _Loading(part))
    monkeypatch.setattr(sys, "argv", ["stoker", word])
    assert entry.main() == 130
    assert capfd.readouterr() == ("", "")
