"""Event bodies of an attempt (W5) and the frames a job process writes: one vocabulary on pipe, journal and wire.

``ts`` is unix seconds by the worker's clock. ``step`` counts decisions (or optimiser steps) of the attempt's job.
"""

from typing import Annotated, Literal

import msgspec

from worker_core.wire.codec import Count, Message, Number, Sha256
from worker_core.wire.vocabulary import Word

MAX_LINE_BYTES = 8192
MetricName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
SeqCount = Annotated[int, msgspec.Meta(ge=1, le=2**40)]
LogStream = Literal["stdout", "stderr", "stoker"]


class Metric(Message, omit_defaults=True, tag_field="t", tag="m"):
    """Values of one step."""

    ts: float
    step: Count
    values: dict[MetricName, Number]


class Log(Message, omit_defaults=True, tag_field="t", tag="l"):
    """One line of output, without its line end, at most 8 KiB."""

    ts: float
    stream: Word
    """A :data:`LogStream`."""
    text: str


class Status(Message, omit_defaults=True, tag_field="t", tag="s"):
    """Where the job is: a phase in words, the step, the share done, seconds left."""

    ts: float
    phase: str
    step: Count = 0
    progress: Fraction = 0.0
    eta_s: float | None = None


class CheckpointSaved(Message, omit_defaults=True, tag_field="t", tag="c"):
    """A checkpoint is complete on disk."""

    ts: float
    step: Count
    sha256: Sha256
    size: Count


class Flag(Message, omit_defaults=True, tag_field="t", tag="flag"):
    """Training goes wrong at this step: what it is, a sentence for a person, and what is done about it."""

    ts: float
    step: Count
    flag: Word
    """A :data:`worker_core.wire.vocabulary.HealthFlag`."""
    text: Annotated[str, msgspec.Meta(max_length=500)]
    action: Word = "warn"
    """A :data:`worker_core.wire.vocabulary.HealthAction`."""


class Gap(Message, omit_defaults=True, tag_field="t", tag="gap"):
    """Events may be missing here (power loss)."""

    ts: float
    reason: str


class Dropped(Message, omit_defaults=True, tag_field="t", tag="dropped"):
    """Events were left out on purpose, and how many.

    ``seqs``: how many sequence numbers the marker takes up. Events that had numbers already give them to the marker
    that replaces them, so that nothing is ever renumbered.
    """

    ts: float
    what: str
    count: Count
    reason: str
    seqs: SeqCount = 1


def seqs_of(event: "Event") -> int:
    """Return how many sequence numbers an event takes up."""
    return event.seqs if isinstance(event, Dropped) else 1


Event = Metric | Log | Status | CheckpointSaved | Flag | Gap | Dropped
