"""What a command prints."""

import pytest

from app.cli.errors import CliError
from app.cli.terminal import Terminal, show_error

NASTY = "\x1b]0;owned\x07red\x9b31m\x1b[31m"


def test_text_of_others_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().say(f"job {NASTY} ended\nnext\tline")
    show_error(CliError(f"failed: {NASTY}", cure="none"), json=False, already_printed=False, verbose=False)
    out, err = capsys.readouterr()
    assert "red" in out
    assert "red" in err
    for shown in (out, err):
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert "ended\nnext" in out
