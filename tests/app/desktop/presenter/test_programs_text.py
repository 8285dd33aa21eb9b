"""Names of programs are one line of text; what cannot be kept is said in plain words."""

import pytest

from app.desktop.presenter.programs_text import BadPrograms, parse_programs, programs_text


def test_names_survive_their_text() -> None:
    assert parse_programs(programs_text(("blender", "my game.exe"))) == ("blender", "my game.exe")
    assert parse_programs(" , blender ,, ") == ("blender",)
    assert parse_programs(programs_text(())) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [(", ".join(f"p{n}" for n in range(51)), "These are 51 programs; 50 are the most"), ("x" * 101, "101 characters")],
)
def test_what_cannot_be_kept_is_said(text: str, said: str) -> None:
    with pytest.raises(BadPrograms, match=said):
        parse_programs(text)
