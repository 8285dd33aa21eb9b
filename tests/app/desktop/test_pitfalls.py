"""What Qt lets pass and punishes later is not written at all."""

import re
from pathlib import Path

import pytest

import app.desktop

SOURCES = sorted(Path(app.desktop.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize(
    ("pitfall", "allowed"),
    [
        (r"\.exec\(", {"application.py": 1}),  # a modal loop; the program's own is the only one
        (r"\.connect\(\s*(lambda|partial)", {}),  # keeps windows alive, or runs on a deleted one
        (r"singleShot\([^\n]*lambda", {}),
        (r"\bQThread\b|\bQRunnable\b|\bthreading\b", {}),  # signals across threads
    ],
)
def test_no_source_of_the_desktop_holds_a_known_pitfall(pitfall: str, allowed: dict[str, int]) -> None:
    found = {source.name: len(hits) for source in SOURCES if (hits := re.findall(pitfall, source.read_text()))}
    assert found == allowed


def test_every_slot_that_is_connected_is_declared_as_one() -> None:
    """A declared slot runs in the thread of its receiver and goes with it."""
    undeclared: list[str] = []
    for source in SOURCES:
        text = source.read_text()
        for name in set(re.findall(r"\.connect\(self\.(_?on_\w+|_\w+)\)", text)):
            declared = re.search(rf"@Slot\([^\n]*\)\n    def {name}\(", text)
            if re.search(rf"\n    def {name}\(", text) and declared is None:
                undeclared.append(f"{source.name}: {name}")
    assert undeclared == []
