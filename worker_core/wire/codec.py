"""Strict JSON for everything we exchange: one encoder, one decoder, one rule for non-finite numbers.

NaN and the infinities travel as the strings "NaN", "Infinity" and "-Infinity". The encoder refuses a bare
non-finite float, because JSON has no word for it and a silent ``null`` would lose it. The decoder accepts
numbers no double can hold (``1e400`` becomes "Infinity") instead of dropping the whole message.
"""

import json
import math
from typing import Annotated, Any, Literal, TypeVar, cast, dataclass_transform

import msgspec

T = TypeVar("T")

NonFinite = Literal["NaN", "Infinity", "-Infinity"]
Number = float | NonFinite
"""A number as it stands in a message; see :func:`number_to_wire`."""

Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all messages: immutable, fields by name, unknown fields ignored on read."""


class BareNonFinite(ValueError):
    """A message to be encoded holds a bare NaN or infinity."""


class BadMessage(ValueError):
    """Bytes that are not the message they should be; the text says where and why."""


def number_to_wire(value: float) -> Number:
    """Return ``value`` as it may stand in JSON."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def number_from_wire(value: Number) -> float:
    """Return the float that ``value`` stands for."""
    return float(value)


def encode(message: object) -> bytes:
    """Encode a message or plain JSON value; raises :class:`BareNonFinite` for a bare NaN or infinity."""
    encoded = msgspec.json.encode(message)
    # msgspec writes null for a non-finite float, so only a text with a null can hide one.
    if b"null" in encoded:
        _refuse_non_finite(msgspec.to_builtins(message), "$")
    return encoded


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode ``data`` as ``kind``; raises :class:`BadMessage` that names the field at fault."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as first:
        try:
            return _decode_huge_numbers(data, kind)
        except (ValueError, TypeError, RecursionError):
            raise BadMessage(str(first)) from first


def convert(value: object, kind: type[T]) -> T:
    """Turn plain JSON values into ``kind``; raises :class:`BadMessage`."""
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise BadMessage(str(error)) from error


def _decode_huge_numbers(data: bytes | str, kind: type[T]) -> T:
    plain = json.loads(data, parse_constant=_refuse_constant)
    return msgspec.convert(_spell_non_finite(plain), type=kind)


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


def _spell_non_finite(value: object) -> object:
    if isinstance(value, float):
        return number_to_wire(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return number_to_wire(_as_float(value))
    if isinstance(value, str):
        value.encode()  # half a surrogate pair, which the lenient decoder lets pass, could never be written again
        return value
    if isinstance(value, dict):
        items = cast(dict[str, object], value).items()
        return {_spell_non_finite(key): _spell_non_finite(item) for key, item in items}
    if isinstance(value, list):
        return [_spell_non_finite(item) for item in cast(list[object], value)]
    return value


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _refuse_non_finite(value: Any, where: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise BareNonFinite(f"{where} is {value}; non-finite numbers are written as strings")
    if isinstance(value, dict):
        for key, item in cast(dict[str, object], value).items():
            _refuse_non_finite(item, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(cast(list[object], value)):
            _refuse_non_finite(item, f"{where}[{index}]")
