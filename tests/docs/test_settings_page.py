"""docs/settings.md lists every key of every settings file with its default, and every variable that is read."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from coordinator.settings import Settings as CoordinatorSettings
from worker_core.core.settings import Settings as WorkerSettings
from worker_core.machine.sources import Script
from worker_core.wire.owner_rules import OwnerRules
from worker_core.wire.session import Parameters

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "settings.md").read_text("utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
SOURCES = [path for folder in ("worker_core", "coordinator", "app") for path in (ROOT / folder).rglob("*.py")]
VARIABLE = re.compile(r"STOKER_[A-Z][A-Z_]*[A-Z]")
KINDS: dict[str, type[msgspec.Struct]] = {
    "Worker: `settings.json`": WorkerSettings,
    "Worker: `rules`": OwnerRules,
    "Coordinator: `coordinator.toml`": CoordinatorSettings,
    "Scripted readings": Script,
}


def rows(kind: type[msgspec.Struct]) -> list[str]:
    return [
        f"| `{field.name}` | {_default(field.default)} | "
        for field in msgspec.structs.fields(kind)
        if field.name != "worker"
    ]


def _default(value: object) -> str:
    """Return a default as the page writes it; all of an object of settings may be left out."""
    if value is None:
        return "–"
    return "`{}`" if isinstance(value, msgspec.Struct) else f"`{json.dumps(value)}`"


@pytest.mark.parametrize("section", KINDS)
def test_every_key_stands_in_its_section_with_its_default(section: str) -> None:
    expected = rows(KINDS[section]) + (rows(Parameters) if KINDS[section] is CoordinatorSettings else [])
    assert [row for row in expected if f"\n{row}" not in SECTIONS[section]] == []


def test_no_section_names_a_key_that_is_not_there() -> None:
    for section, kind in KINDS.items():
        known = {field.name for field in msgspec.structs.fields(kind)}
        if kind is CoordinatorSettings:
            known |= {field.name for field in msgspec.structs.fields(Parameters)}
        assert set(re.findall(r"^\| `(\w+)` ", SECTIONS[section], re.MULTILINE)) <= known


def test_every_variable_that_the_code_reads_is_explained_and_no_other() -> None:
    named = {name for path in SOURCES for name in VARIABLE.findall(path.read_text("utf-8"))}
    assert set(re.findall(r"^\| `(STOKER_\w+)` ", SECTIONS["Environment"], re.MULTILINE)) == named
