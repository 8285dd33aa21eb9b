"""Reading what a person wrote into a typed Struct, with every mistake listed at once.

msgspec stops at the first error and names no range. Here each leaf is converted on its own, so that a person sees
all fields at fault together: where, what stands there, and what is allowed. Unknown keys are errors.
"""

import difflib
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from worker_core.wire.problems import FieldError

S = TypeVar("S", bound=msgspec.Struct)

_SHOWN_CHARACTERS = 60
_WORDS: dict[object, str] = {
    type(None): "null",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


class Mistakes(ValueError):
    """What was written cannot be accepted; ``errors`` has one entry for each field at fault."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        super().__init__(
            "\n".join(f"{error.field}: {error.message}" if error.field else error.message for error in errors)
        )
        self.errors = errors


def read_strictly(kind: type[S], raw: Mapping[str, object], later: Mapping[str, str] | None = None) -> S:
    """Return ``raw`` as ``kind`` or raise :class:`Mistakes`.

    ``later`` maps paths of keys that this version does not take to the sentence that says so.
    """
    errors: list[FieldError] = []
    value = _read_struct(kind, raw, "", later or {}, errors)
    if errors:
        raise Mistakes(tuple(errors))
    return cast(S, value)


def _read_struct(
    kind: type[msgspec.Struct], raw: object, path: str, later: Mapping[str, str], errors: list[FieldError]
) -> msgspec.Struct | None:
    if not isinstance(raw, Mapping):
        errors.append(FieldError(field=path, message=f"{shown(raw)} stands here; it must be a table of keys"))
        return None
    given = cast(Mapping[object, object], raw)
    hints = get_type_hints(kind, include_extras=True)
    known = {field.name: hints[field.name] for field in msgspec.structs.fields(kind)}
    before = len(errors)
    values: dict[str, object] = {}
    for key, value in given.items():
        where = _join(path, str(key))
        if where in later:
            errors.append(FieldError(field=where, message=later[where]))
        elif key not in known:
            errors.append(FieldError(field=where, message=_unknown(str(key), list(known))))
        else:
            values[str(key)] = _read_value(known[str(key)], value, where, later, errors)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in given:
            message = f"is missing; it must be {allowed(known[field.name])}"
            errors.append(FieldError(field=_join(path, field.name), message=message))
    return kind(**values) if len(errors) == before else None


def _read_value(kind: Any, value: object, path: str, later: Mapping[str, str], errors: list[FieldError]) -> object:
    nested = _struct_in(kind)
    if nested is not None and not (value is None and _may_be_none(kind)):
        return _read_struct(nested, value, path, later, errors)
    items = _structs_in_list(kind)
    if items is not None and isinstance(value, (list, tuple)):
        entries = cast("list[object]", value)
        limit = next((meta.max_length for meta in get_args(kind) if isinstance(meta, msgspec.Meta)), None)
        if limit is not None and len(entries) > limit:
            errors.append(FieldError(field=path, message=f"has {len(entries)} entries; at most {limit} is allowed"))
        return tuple(_read_struct(items, item, f"{path}[{i}]", later, errors) for i, item in enumerate(entries))
    try:
        return msgspec.convert(value, type=kind)
    except (msgspec.ValidationError, TypeError):
        errors.append(FieldError(field=path, message=f"{shown(value)} is not allowed; it must be {allowed(kind)}"))
        return None


def shown(value: object) -> str:
    """Return ``value`` as it is quoted in a message: short, on one line."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def allowed(kind: Any) -> str:
    """Say in words which values ``kind`` takes."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        meta = next((item for item in arguments[1:] if isinstance(item, msgspec.Meta)), msgspec.Meta())
        return meta.description or _limited(arguments[0], meta)
    if origin is Literal:
        return " or ".join(repr(item) if isinstance(item, str) else str(item) for item in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if item is type(None) else allowed(item) for item in arguments)
    if origin in (tuple, list):
        return f"a list, each item {allowed(arguments[0])}"
    return _WORDS.get(kind, "a table of keys")


def _limited(kind: Any, meta: msgspec.Meta) -> str:
    word = allowed(kind)
    if get_origin(kind) in (tuple, list):
        return f"{word}, at most {meta.max_length:,} of them" if meta.max_length is not None else word
    if meta.ge is not None and meta.le is not None:
        return f"{word} from {meta.ge:,} to {meta.le:,}"
    if meta.gt is not None and meta.le is not None:
        return f"{word} above {meta.gt:,}, at most {meta.le:,}"
    if meta.max_length is not None:
        return f"{word}, {meta.min_length or 0} to {meta.max_length:,} long"
    return word


def _unknown(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return (
        f"is not a known key; did you mean {close[0]}?" if close else f"is not a known key; known: {', '.join(known)}"
    )


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    for candidate in (kind, *get_args(kind)):
        if isinstance(candidate, type) and issubclass(candidate, msgspec.Struct):
            return candidate if get_origin(kind) not in (tuple, list) else None
    return None


def _structs_in_list(kind: Any) -> type[msgspec.Struct] | None:
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    first = get_args(bare)[0] if get_origin(bare) in (tuple, list) else None
    return first if isinstance(first, type) and issubclass(first, msgspec.Struct) else None


def _may_be_none(kind: Any) -> bool:
    return type(None) in get_args(kind)
