"""The version of this program, and which of two versions is the older one."""

import re
from importlib.metadata import PackageNotFoundError, version

_PART = re.compile(r"\d{1,9}")


def installed_version() -> str:
    """Return the version of this installation; ``0.0.0`` when it runs from a tree that is not installed."""
    try:
        return version("stoker")
    except PackageNotFoundError:
        return "0.0.0"


def is_older(version: str, floor: str) -> bool:
    """Tell whether a version lies below the floor; what is not a number counts as 0."""
    return _numbers(version) < _numbers(floor)


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in _PART.findall(version[:100])[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))
