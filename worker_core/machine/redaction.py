"""Takes known secrets out of text that leaves a process: plain, or as base64, hex, URL, JSON, XML or Python text.

A secret is told once, where it comes in (:data:`KNOWN_SECRETS`); whatever writes a log, a report or a job's output
passes it through :meth:`Redactor.redact`. Only whole secrets are found: a text that holds a part of one is let through.
"""

import base64
import json
import re
import threading
from collections import deque
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

MASK = b"[secret]"
MIN_CHARS = 6
"""Shorter texts are no secrets: they would black out half of every log."""
_PIECE_CHARS = 256
"""Longer secrets are sought in pieces, so that no pattern is long; every piece is found at any place in base64."""
_PASSING_KEPT = 8
_SMALL_BYTES = 1024
_IN_ATTRIBUTES: tuple[dict[str, str], ...] = (
    {},
    {'"': "&quot;"},
    {'"': "&quot;", "'": "&#x27;"},
    {'"': "&quot;", "'": "&#39;"},
    {'"': "&quot;", "'": "&apos;"},
    {"\t": "&#9;"},
    {"\t": "&#9;", '"': "&quot;"},
)
"""What writers of XML and HTML replace in attributes, beside &, < and >."""


class Redactor:
    """Replaces every known secret by ``[secret]``; may be used from any thread."""

    def __init__(self) -> None:
        self._lasting: dict[bytes, None] = {}
        self._passing: deque[bytes] = deque(maxlen=_PASSING_KEPT)
        self._change = threading.Lock()
        self._patterns: Patterns | None = None

    def add(self, secret: str | bytes) -> None:
        """Know a secret for as long as this process lives; texts below :data:`MIN_CHARS` are left out."""
        known = _as_bytes(secret)
        with self._change:
            if known not in self._lasting:
                self._lasting[known] = None
                self._patterns = None

    def add_passing(self, secret: str | bytes) -> None:
        """Know a secret that others will replace, as access tokens do; the newest eight are known."""
        with self._change:
            if _as_bytes(secret) not in self._passing:
                self._passing.append(_as_bytes(secret))
                self._patterns = None

    def redact(self, text: str) -> str:
        """Return ``text`` without secrets."""
        raw = text.encode("utf-8", "surrogatepass")
        redacted = self.redact_bytes(raw)
        return text if redacted is raw else redacted.decode("utf-8", "surrogatepass")

    def redact_bytes(self, data: bytes) -> bytes:
        """Return ``data`` without secrets; the same object when there are none."""
        patterns = self._current()
        return patterns.replace(data) if patterns.occur_in(data) else data

    def stream(self) -> "RedactingStream":
        """Return a filter for data that comes in pieces."""
        return RedactingStream(self._current())

    @property
    def longest(self) -> int:
        """How many bytes the longest form of any secret has."""
        return self._current().longest

    def _current(self) -> "Patterns":
        with self._change:
            if self._patterns is None:
                self._patterns = Patterns({*self._lasting, *self._passing})
            return self._patterns


class Patterns:
    """All forms of some secrets, ready to be searched for."""

    def __init__(self, secrets: set[bytes]) -> None:
        forms = {form for secret in secrets for piece in _pieces(secret) for form in forms_of(piece)}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._any = re.compile(b"|".join(re.escape(form) for form in self._forms)) if forms else None
        self._beginnings = frozenset(form[:end] for form in forms for end in range(1, len(form)))
        self.longest = max(map(len, forms), default=0)

    def occur_in(self, data: bytes) -> bool:
        """Tell whether any form is in ``data``."""
        if self._any is None:
            return False
        if len(data) < _SMALL_BYTES:
            return self._any.search(data) is not None
        # One search for each form skips ahead by its length; over much data that beats one expression tenfold.
        return any(form in data for form in self._forms)

    def replace(self, data: bytes) -> bytes:
        """Return ``data`` with every form replaced."""
        return data if self._any is None else self._any.sub(MASK, data)

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what is settled of ``data``, redacted, and the end that may be the beginning of a secret."""
        if self._any is None:
            return data, b""
        settled: list[bytes] = []
        done, held = 0, self._held_from(data, 0)
        for found in self._any.finditer(data):
            if found.start() >= held:
                break
            settled += (data[done : found.start()], MASK)
            done = found.end()
            held = max(held, self._held_from(data, done) if done > held else held)
        return b"".join((*settled, data[done:held])), data[held:]

    def _held_from(self, data: bytes, start: int) -> int:
        """Return from where on ``data`` is the beginning of a form; its length when it is not."""
        first = max(start, len(data) - self.longest + 1)
        return next((place for place in range(first, len(data)) if data[place:] in self._beginnings), len(data))


class RedactingStream:
    """Redacts data that comes in pieces: a secret that two pieces share is found too."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what is settled; what may be the beginning of a secret waits for the next piece."""
        settled, self._held = self._patterns.split(self._held + data)
        return settled

    def close(self) -> bytes:
        """Return the rest."""
        held, self._held = self._held, b""
        return self._patterns.replace(held)


def forms_of(secret: bytes) -> set[bytes]:
    """Return the ways in which a secret may be written down."""
    forms = {secret, *_base64_forms(secret), secret.hex().encode(), secret.hex().upper().encode()}
    try:
        text = secret.decode()
    except UnicodeDecodeError:
        return forms
    for form in _text_forms(text):
        forms |= {form.encode("utf-8", "surrogatepass")}
    return forms


def _text_forms(text: str) -> Iterator[str]:
    for encoded in (quote(text, safe=""), quote(text), quote_plus(text), quote(text, safe="~()*!'")):
        yield from (encoded, re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), encoded))
    for plain in (False, True):
        inner = json.dumps(text, ensure_ascii=not plain)[1:-1]
        yield from (inner, inner.replace("/", "\\/"), re.sub(r"\\u[0-9a-f]{4}", _upper_hex, inner))
    yield from (_in_markup(text, also) for also in _IN_ATTRIBUTES)
    yield from (repr(text)[1:-1], ascii(text)[1:-1])


def _in_markup(text: str, also: dict[str, str]) -> str:
    # The library's own would load its table of two thousand entities into the tray.
    for letter, entity in {"&": "&amp;", "<": "&lt;", ">": "&gt;", **also}.items():
        text = text.replace(letter, entity)
    return text


def _upper_hex(found: re.Match[str]) -> str:
    return "\\u" + found.group()[2:].upper()


def _base64_forms(secret: bytes) -> Iterator[bytes]:
    """Yield the letters that depend on the secret alone, for each of its three places in a group of three bytes."""
    for before in range(3):
        first, last = -(-8 * before // 6), (8 * (before + len(secret))) // 6
        core = base64.b64encode(bytes(before) + secret)[first:last]
        yield from (core, core.replace(b"+", b"-").replace(b"/", b"_"))


def _pieces(secret: bytes) -> Iterator[bytes]:
    """Yield the lines of a secret in bounded pieces. The frame of a PEM file is no secret."""
    for line in re.split(rb"[\r\n]+", secret):
        if line.startswith(b"-----"):
            continue
        text = line.decode("utf-8", "surrogateescape")
        count = max(1, -(-len(text) // _PIECE_CHARS))
        size = -(-len(text) // count)
        for start in range(0, len(text), max(1, size)):
            piece = text[start : start + size]
            if len(piece) >= MIN_CHARS:
                yield piece.encode("utf-8", "surrogateescape")


def _as_bytes(secret: str | bytes) -> bytes:
    return secret if isinstance(secret, bytes) else secret.encode("utf-8", "surrogatepass")


KNOWN_SECRETS = Redactor()
"""The secrets of this process."""
