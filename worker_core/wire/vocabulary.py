"""The fixed words of the system: modes, states, reasons. One spelling for wire, screen and docs.

Old and new versions meet on the wire, and a word that one of them does not know must not make a message unreadable
for ever. So a message carries every word that only tells something (a state, reason, phase, class of failure, flag)
as a :data:`Word`: any text is read, an unknown one is shown as it is, and what is decided by it takes the careful side.
Closed are only words that are obeyed: modes, outcomes, verdicts, orders. A new one of those needs a higher floor of
versions (``min_worker_version``).
"""

from typing import Annotated, Literal

import msgspec

Word = Annotated[str, msgspec.Meta(max_length=200)]
"""A word of one of the lists below as a message carries it, or one of a newer version."""

Mode = Literal["run", "drain", "stop"]
MODES: tuple[Mode, ...] = ("run", "drain", "stop")

WorkerState = Literal[
    "unpaired",
    "pairing",
    "connecting",
    "available",
    "training",
    "draining",
    "paused",
    "offline",
    "problem",
    "expired",
    "revoked",
]
"""What a worker shows (docs/architecture.md, "States")."""

JobState = Literal["queued", "running", "canceling", "succeeded", "failed", "canceled"]
JOB_END_STATES: tuple[JobState, ...] = ("succeeded", "failed", "canceled")

AttemptState = Literal[
    "offered",
    "withdrawn",
    "running",
    "lost",
    "superseded",
    "released",
    "canceling",
    "canceled",
    "succeeded",
    "failed",
    "revoked",
]
LIVE_ATTEMPT_STATES: tuple[AttemptState, ...] = ("running", "canceling")

Outcome = Literal["succeeded", "failed", "canceled"]
"""How a job process ended, as the worker reports it (W11)."""

FailureClass = Literal[
    "exception",
    "bad-spec",
    "out-of-memory",
    "gpu-out-of-memory",
    "signal",
    "silence",
    "stalled",
    "numeric",
    "device-lost",
    "driver-mismatch",
    "unsupported-gpu",
    "disk-full",
    "data-missing",
    "start-failed",
    "canceled",
]
"""Why an attempt failed; :mod:`worker_core.wire.failure_rules` has the cure of each, and whether it is tried again."""

HealthFlag = Literal["stall", "nan", "gradient"]
"""What is told of a training that goes wrong: it stands still; its loss is no number; its gradients explode."""
HealthAction = Literal["warn", "stop", "rollback"]

ReleaseReason = Literal["stopped", "shutdown", "crash", "not-held", "expired", "offline"]

Reason = str
"""A reason code beside a state: ``drained``, ``stopped``, ``keystore-locked``, ``coordinator-unreachable``,
``clock-wrong``, ``cannot-authenticate``, ``wrong-coordinator``, ``credential-conflict``, ``confirm-needed``,
``upgrade-required``, ``copied-home``, ``asks-for-renewal``, ``disk-full``, ``journal-unwritable``,
``outbox-full``, ``disk-slow``, ``device-missing``, ``no-containment``, ``job-stuck``,
``gpu-quarantined``, ``gpu-untested``, ``gpu-memory-held``, ``gpu-busy``, ``gpu-session``, ``gpu-silent``,
``owner:given-back`` while the owner has the machine back, ``owner:<rule>``."""


def stricter(one: Mode, other: Mode) -> Mode:
    """Return the stricter of two modes: run < drain < stop."""
    return one if MODES.index(one) >= MODES.index(other) else other
