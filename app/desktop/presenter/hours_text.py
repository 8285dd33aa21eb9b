"""Weekly hours as one line of text, which a keyboard can change: ``mon-fri 20:00-08:00; sat,sun 00:00-00:00``."""

import re

from worker_core.wire.owner_rules import DAYS, Day, Hours

EXAMPLE = "mon-fri 20:00-08:00; sat,sun 00:00-00:00"
MOST_SPANS = 50
_SPAN = re.compile(r"^(?:(?P<days>[a-z,\s\-–]+?)\s+)?(?P<begin>\d{1,2}:\d{2})\s*[-–]\s*(?P<end>\d{1,2}:\d{2})$")
_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_EVERY_DAY = ("daily", "every day", "")


class BadHours(ValueError):
    """Text that names no hours; says what is wrong and what is right."""


def hours_text(hours: tuple[Hours, ...]) -> str:
    """Return hours as text; empty for always."""
    return "; ".join(f"{_days_text(span.days)}{span.begin}-{span.end}" for span in hours)


def parse_hours(text: str) -> tuple[Hours, ...]:
    """Return what a text means; raises :class:`BadHours`."""
    parts = [part.strip().lower() for part in text.split(";") if part.strip()]
    if len(parts) > MOST_SPANS:
        raise BadHours(f"These are {len(parts)} spans; {MOST_SPANS} are the most.")
    return tuple(_parse_span(part) for part in parts)


def _parse_span(part: str) -> Hours:
    found = _SPAN.match(part)
    if found is None:
        raise BadHours(f"“{part[:40]}” is no span of hours. Write for example: {EXAMPLE}")
    return Hours(
        begin=_clock(found["begin"]), end=_clock(found["end"]), days=_parse_days((found["days"] or "").strip())
    )


def _clock(text: str) -> str:
    hour, minute = (int(part) for part in text.split(":"))
    if hour > 23 or minute > 59:
        raise BadHours(f"{text} is no time of the day; the last one is 23:59, and midnight is 00:00.")
    return f"{hour:02d}:{minute:02d}"


def _parse_days(text: str) -> tuple[Day, ...]:
    if text in _EVERY_DAY:
        return DAYS
    chosen: set[Day] = set()
    for part in text.replace("–", "-").split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        begin = _day(first)
        end = _day(last) if dash else begin
        count = (DAYS.index(end) - DAYS.index(begin)) % len(DAYS) + 1
        chosen.update(DAYS[(DAYS.index(begin) + offset) % len(DAYS)] for offset in range(count))
    return tuple(day for day in DAYS if day in chosen)


def _day(text: str) -> Day:
    for day, name in zip(DAYS, _DAY_NAMES, strict=True):
        if len(text) >= 3 and name.startswith(text):
            return day
    raise BadHours(f"“{text[:20]}” is no day. Days are {', '.join(DAYS)}, with commas between them.")


def _days_text(days: tuple[Day, ...]) -> str:
    if set(days) == set(DAYS):
        return ""
    places = sorted(DAYS.index(day) for day in set(days))
    if len(places) > 2 and places == list(range(places[0], places[-1] + 1)):
        return f"{DAYS[places[0]]}-{DAYS[places[-1]]} "
    return ",".join(DAYS[place] for place in places) + " "
