"""docs/protocol.md lists every message with exactly its fields, and every problem code with its meaning."""

import importlib
import re
from pathlib import Path

import msgspec
import pytest

from worker_core.wire.problems import CODES

REFERENCE = Path(__file__).parents[2] / "docs" / "protocol.md"
MODULES = ("pairing", "session", "work", "events", "frames", "signed", "problems", "client")


def documented_fields() -> dict[str, str]:
    """Message name to field list, from the tables of the reference."""
    fields: dict[str, str] = {}
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.fullmatch(r"`([A-Z]\w+)`", cells[0])
        if name and len(cells) in (3, 4):
            fields[name.group(1)] = cells[-2]
    return fields


def messages() -> list[type[msgspec.Struct]]:
    found: list[type[msgspec.Struct]] = []
    for module_name in MODULES:
        module = importlib.import_module(f"worker_core.wire.{module_name}")
        found += [
            item
            for item in vars(module).values()
            if isinstance(item, type)
            and issubclass(item, msgspec.Struct)
            and item.__module__ == module.__name__
            and not item.__name__.startswith("_")
        ]
    return found


@pytest.mark.parametrize("message", messages(), ids=lambda message: message.__name__)
def test_the_reference_lists_the_fields_of_each_message(message: type[msgspec.Struct]) -> None:
    fields = msgspec.structs.fields(message)
    written = ", ".join(field.encode_name + ("" if field.required else "?") for field in fields)
    assert documented_fields().get(message.__name__) == written


def test_the_reference_names_no_message_that_does_not_exist() -> None:
    assert set(documented_fields()) == {message.__name__ for message in messages()}


def test_the_reference_lists_every_problem_code_as_it_is_answered() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    for code, (status, _, action, retryable) in CODES.items():
        assert f"| `{code}` | {status} | {action or '–'} | {'yes' if retryable else 'no'} |" in text
