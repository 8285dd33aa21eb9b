"""Where words and results go: results of `--json` alone on standard output, everything else beside it."""

import os
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Self, TypeVar

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from app.cli.errors import CliError
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.wire.codec import encode

T = TypeVar("T")

_FILE_WIDTH = 500
"""A pipe or a file has no edge: what `grep` shall find stands in one line."""

_UNSAFE = {code: "�" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class SafeConsole(Console):
    """A console on which text of others (job names, logs, reasons) cannot steer the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as usual, with control characters of the text made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(segment.text.translate(_UNSAFE), segment.style)


class Terminal:
    """The two outputs of one command."""

    def __init__(self) -> None:
        self.printed = False
        """Whether a JSON document went out."""
        self.use_json(False)

    def use_json(self, json: bool) -> None:
        """Keep standard output for JSON, or use it for words."""
        self.json = json
        self.words = SafeConsole(stderr=json, highlight=False, soft_wrap=True)
        if not self.words.is_terminal and "COLUMNS" not in os.environ:
            self.words.width = _FILE_WIDTH

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked here."""
        return not self.json and sys.stdin.isatty() and self.words.is_terminal

    def say(self, text: str = "", style: str = "") -> None:
        """Print words for a person; text of others is never read as markup."""
        self.words.print(Text(text, style=style))

    def result(self, document: object) -> None:
        """Print one JSON document on standard output, in one line."""
        sys.stdout.write(encode(document).decode() + "\n")
        sys.stdout.flush()
        self.printed = True

    def show(self, document: T, in_words: Callable[[T, Self], None]) -> None:
        """Print the document in JSON mode, else what ``in_words`` makes of it."""
        if self.json:
            self.result(document)
        else:
            in_words(document, self)

    def done(self, text: str, document: object = None) -> None:
        """Print the end of a command: the document in JSON mode, else a line with a tick."""
        if self.json and document is not None:
            self.result(document)
        else:
            self.words.print(Text.assemble(("✓ ", "bold green"), text))


def show_error(error: CliError, *, json: bool, already_printed: bool, verbose: bool) -> None:
    """Tell a person on standard error, and a program on standard output, what went wrong; no secret gets in."""
    console = SafeConsole(stderr=True, highlight=False, soft_wrap=True)
    clean = KNOWN_SECRETS.redact
    console.print(Text.assemble(("✗ ", "bold red"), (clean(error.what), "bold")))
    for line in _explanation(error):
        console.print(Text(f"  {clean(line)}"))
    if verbose:
        console.print(Text(clean("".join(traceback.format_exception(error))), style="dim"))
    if json and not already_printed:
        sys.stdout.write(clean(encode({"error": error_document(error)}).decode()) + "\n")
        sys.stdout.flush()


def error_document(error: CliError) -> dict[str, object]:
    """Return the error as a program reads it."""
    document: dict[str, object] = {"code": error.code, "what": error.what, "why": error.why, "cure": error.cure}
    if error.details:
        document["errors"] = [msgspec.to_builtins(detail) for detail in error.details]
    return document


def _explanation(error: CliError) -> Iterable[str]:
    if error.why:
        yield error.why
    for detail in error.details:
        yield f"{detail.field}: {detail.message}"
    if error.cure:
        yield error.cure


def count_of(number: int, thing: str) -> str:
    """Return a number with its thing: ``1 event``, ``2 events``."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def wants_traceback(verbose: bool) -> bool:
    """Tell whether the person asked for tracebacks."""
    return verbose or os.environ.get("STOKER_DEBUG", "") not in ("", "0")
