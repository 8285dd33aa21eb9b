"""docs/job-specs.md lists every key with what is allowed and what is the default."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from worker_core.wire.spec import JobSpec
from worker_core.wire.strict import _struct_in, _structs_in_list, allowed

PAGE = Path(__file__).parents[3] / "docs" / "job-specs.md"


def rows(kind: type[msgspec.Struct] = JobSpec, path: str = "") -> Iterator[str]:
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        where = f"{path}{field.name}"
        nested, listed = _struct_in(hints[field.name]), _structs_in_list(hints[field.name])
        inner = nested or listed
        if where in ("ppo", "system.skills[0].ppo"):
            yield from rows(nested, f"{where}.") if where == "ppo" and nested else ()
        elif inner is not None:
            yield from rows(inner, f"{where}{'[0]' if listed else ''}.")
        else:
            yield f"| `{where}` | {allowed(hints[field.name])} | {default_of(field)} |"


def default_of(field: Any) -> str:
    if field.required:
        return "must be given"
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{msgspec.json.encode(default).decode()}`"


def test_the_page_lists_every_key_with_range_and_default() -> None:
    page = PAGE.read_text()
    missing = [row for row in rows() if row not in page]
    assert missing == []


def test_the_page_lists_no_key_that_is_gone() -> None:
    listed = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(rows())
