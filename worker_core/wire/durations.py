"""Durations as people write and read them: ``90s``, ``15m``, ``2h``, ``30d``, and ``2h 30m`` on screen."""

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"(\d+)\s*([smhdw])")


class BadDuration(ValueError):
    """Text that is not a duration."""


def parse_duration(text: str) -> int:
    """Return the seconds meant by ``text`` such as ``30d`` or ``1h30m``; raises :class:`BadDuration`."""
    compact = text.strip().lower()
    parts = _PART.findall(compact)
    if not parts or _PART.sub("", compact).strip():
        raise BadDuration(f"{text!r} is not a duration; write for example 90s, 15m, 2h or 30d")
    return sum(int(count) * _SECONDS[unit] for count, unit in parts)


def format_duration(seconds: float) -> str:
    """Return the two largest units of a duration: ``29 d 4 h``, ``3 min 20 s``, ``12 s``."""
    whole = max(0, int(seconds))
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    counts: list[tuple[int, str]] = []
    for size, name in units:
        count, whole = divmod(whole, size)
        counts.append((count, name))
    first = next((index for index, (count, _) in enumerate(counts) if count), len(counts) - 1)
    shown = [f"{count} {name}" for count, name in counts[first : first + 2] if count]
    return " ".join(shown) or "0 s"
