"""docs/protocol.md lists every message with exactly its fields, and every problem code with its meaning."""

import importlib
import pkgutil
import re
from pathlib import Path

import msgspec
import pytest

import coordinator.api
from coordinator.console import routes as console
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


def served_calls() -> set[str]:
    """Every call a coordinator answers, besides the console's pages and the host's own admin door."""
    modules = [f"coordinator.api.{module.name}" for module in pkgutil.iter_modules(coordinator.api.__path__)]
    routes = [route for name in modules for route in getattr(importlib.import_module(name), "routes", [])]
    routes += [route for route in console.routes if getattr(route, "path", "").startswith("/v1/")]
    return {
        f"{method} {route.path}"
        for route in routes
        for method in route.methods - ({"HEAD"} if "GET" in route.methods else set())
        if not route.path.startswith("/v1/admin/")
    }


def test_the_reference_lists_every_call_and_no_other() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `((?:GET|POST|PATCH|DELETE|HEAD|PUT) /\S+)`", text, re.MULTILINE))
    assert listed == served_calls()
