"""Lines of a job's output as the console shows them: plain text, in chunks that a browser lays out lazily."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from coordinator.console.words import moment
from coordinator.queue.records import LogLine
from worker_core.wire.events import LogStream

CHUNK_LINES = 200
_STREAMS = get_args(LogStream)
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class ShownLine:
    """One line: when, from where, and its cleaned text."""

    at: str
    stream: str
    text: str


def clean_text(text: str) -> str:
    """Return a line without terminal escapes, control characters and direction overrides.

    Of updates that overwrite each other with ``\\r`` only the last is left.
    """
    settled = text.rstrip("\r").rsplit("\r", 1)[-1]
    return _CONTROLS.sub("", _ESCAPES.sub("", settled))


def shown_line(line: LogLine) -> ShownLine:
    """Return a stored line as it is shown."""
    return ShownLine(moment(line.ts), line.stream if line.stream in _STREAMS else "stoker", clean_text(line.text))


def chunks(lines: Sequence[LogLine]) -> list[list[ShownLine]]:
    """Return lines in chunks; each becomes one element of the page."""
    shown = [shown_line(line) for line in lines]
    return [shown[start : start + CHUNK_LINES] for start in range(0, len(shown), CHUNK_LINES)]


def plain_line(line: LogLine) -> str:
    """Return a line for the downloaded log."""
    return f"{moment(line.ts)} [{line.attempt}] {line.stream}: {line.text}\n"
