"""Reads a job spec a person wrote, as JSON, TOML or YAML, into plain JSON values."""

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any, cast

import yaml

from app.cli.errors import WrongUsage

MAX_SPEC_BYTES = 1 << 20


class _SpecLoader(yaml.SafeLoader):
    """Safe YAML that reads ``3e-4`` as the number it looks like (YAML 1.1 wants ``3.0e-4``)."""


_SpecLoader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_spec(path: Path) -> dict[str, object]:
    """Return the spec in ``path`` as plain values; raises :class:`WrongUsage` that says what is wrong and where."""
    text = _read_text(path)
    readers = {".json": _from_json, ".toml": _from_toml, ".yaml": _from_yaml, ".yml": _from_yaml}
    reader = readers.get(path.suffix.lower())
    try:
        value = reader(text, path) if reader else _guess(text, path)
        if not isinstance(value, dict):
            raise WrongUsage(f"{path} is not a job spec.", why="A spec is a table of keys and values.", code="bad-spec")
        spec = cast(dict[str, object], value)
        _refuse_foreign(spec, "", path)
    except RecursionError as error:
        raise WrongUsage(f"{path} is not a job spec.", why="It is nested too deeply.", code="bad-spec") from error
    return spec


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_SPEC_BYTES:
            raise WrongUsage(f"{path} is too large for a job spec.", why="The limit is 1 MiB.", code="bad-spec")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WrongUsage(f"There is no file {path}.", code="no-such-file") from None
    except UnicodeDecodeError:
        raise WrongUsage(f"{path} is not text in UTF-8.", code="bad-spec") from None
    except OSError as error:
        raise WrongUsage(f"Cannot read {path}.", why=error.strerror or str(error), code="no-such-file") from error


def _guess(text: str, path: Path) -> object:
    if text.lstrip().startswith("{"):
        return _from_json(text, path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return _from_yaml(text, path)


def _from_json(text: str, path: Path) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except ValueError as error:
        raise _syntax_error("JSON", path, str(error)) from error


def _from_toml(text: str, path: Path) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error("TOML", path, str(error)) from error


def _from_yaml(text: str, path: Path) -> object:
    try:
        return cast(object, yaml.load(text, Loader=_SpecLoader))
    except yaml.YAMLError as error:
        raise _syntax_error("YAML", path, " ".join(str(error).split())) from error


def _syntax_error(language: str, path: Path, why: str) -> WrongUsage:
    return WrongUsage(f"{path} is not valid {language}.", why=why, code="bad-spec")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice")
        found[key] = value
    return found


def _refuse_foreign(value: object, where: str, path: Path) -> None:
    """Refuse what TOML and YAML know and JSON does not: dates, infinities, keys that are no text."""
    if isinstance(value, dict):
        for key, item in cast(dict[object, object], value).items():
            if not isinstance(key, str):
                raise WrongUsage(f"{path}: the key {key!r} in {where or 'the spec'} is not text.", code="bad-spec")
            _refuse_foreign(item, f"{where}.{key}" if where else key, path)
    elif isinstance(value, list):
        for index, item in enumerate(cast(list[object], value)):
            _refuse_foreign(item, f"{where}[{index}]", path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise WrongUsage(f"{path}: {where} is {value}; only finite numbers are allowed.", code="bad-spec")
    elif not isinstance(value, str | int | float | None):
        raise WrongUsage(f"{path}: {where} is a {type(value).__name__}; write it as text.", code="bad-spec")
