"""The local control channel: one JSON object a line, at most 256 KiB, between the core and its faces on this machine.

The first line of a client is a :class:`Hello` within 2 s, with the token of ``control.json``; the core answers with a
:class:`Welcome`. After that the client sends :class:`Request` and :class:`Subscribe` lines, the core sends
:class:`Reply`, :class:`Snapshot` and :class:`MetricEvent` lines. A gap in ``rev`` means: subscribe again.
"""

from typing import Any, Literal

import msgspec

from worker_core.wire.codec import Count, Message, Number
from worker_core.wire.status import WorkerStatus

PROTOCOL_VERSION = 1
MAX_LINE_BYTES = 256 * 1024
MAX_CLIENTS = 16
MAX_BUCKETS = 600
HELLO_TIMEOUT_S = 2.0
PING_S = 15.0

Operation = Literal[
    "status",  # -> WorkerStatus
    "pair",  # PairArgs -> PairingShown; decided pairings show in the snapshot and in pair-wait
    "pair-wait",  # {} -> PairOutcome, when the pairing in progress is decided
    "pair-cancel",
    "unpair",
    "mode",  # ModeArgs: the workstation's own mode
    "give-back",  # GiveBackArgs: save a checkpoint, free the GPU, take jobs again by itself
    "rules",  # {} -> OwnerRules
    "set-rules",  # OwnerRules -> {}: written to the settings and obeyed at once
    "quit",  # QuitArgs
    "history",  # HistoryArgs -> History
    "attempts",  # {} -> {"attempts": [AttemptShown]}: those with metric history, newest first
    "coordinator-setup",  # EmbeddedArgs -> EmbeddedReady: "this computer"
    "retest-gpu",  # {} -> GpusTested: every GPU that no job has, those in quarantine too
    "ping",
]

ErrorCode = Literal[
    "bad-request", "unknown-operation", "wrong-state", "not-paired", "refused", "unreachable", "busy", "failed"
]


class Hello(Message, tag_field="type", tag="hello"):
    """First line of a client."""

    v: int
    token: str
    client: str
    """What it is: ``cli``, ``desktop``, ``test``."""


class Welcome(Message, tag_field="type", tag="welcome"):
    """The core's answer to :class:`Hello`."""

    v: int
    version: str
    pid: int


class Request(Message, omit_defaults=True, tag_field="type", tag="request"):
    """Asks for one operation. ``id`` is made by the client; a repeated id gets the stored reply."""

    id: str
    op: Operation
    args: dict[str, Any] = {}


class Subscribe(Message, tag_field="type", tag="subscribe"):
    """Asks for a snapshot now and at each change; ``metrics`` adds metric events of the running attempt."""

    metrics: bool = False


class ErrorBody(Message):
    code: ErrorCode
    text: str


class Reply(Message, omit_defaults=True, tag_field="type", tag="reply"):
    id: str
    ok: Any = None
    error: ErrorBody | None = None


class Snapshot(Message, tag_field="type", tag="snapshot"):
    """The whole truth; the latest replaces all before."""

    rev: Count
    status: WorkerStatus


class MetricEvent(Message, tag_field="type", tag="metric"):
    """New points of the running attempt; ``lost`` counts those a slow client missed."""

    attempt_id: str
    step: Count
    ts: float
    values: dict[str, Number]
    lost: Count = 0


class Ping(Message, tag_field="type", tag="ping"):
    pass


ClientLine = Hello | Request | Subscribe | Ping
CoreLine = Welcome | Reply | Snapshot | MetricEvent | Ping


class PairArgs(Message):
    coordinator: str
    email: str
    name: str | None = None
    credential_store: Literal["keyring", "file"] | None = None


class PairOutcome(Message):
    state: Literal["approved", "denied", "expired", "canceled", "failed"]
    worker_id: str | None = None
    worker_name: str | None = None
    account: str | None = None
    detail: str = ""


class ModeArgs(Message):
    mode: Literal["run", "drain", "stop"]
    now: bool = False
    """With stop: no grace beyond the last checkpoint."""


class GiveBackArgs(Message):
    """Give the machine back until a moment (seconds since 1970), or until a person resumes."""

    until: float | None = None


class QuitArgs(Message):
    how: Literal["checkpoint", "drain", "now"] = "checkpoint"


class HistoryArgs(Message):
    attempt_id: str
    names: tuple[str, ...]
    max_buckets: int = MAX_BUCKETS


class Series(Message):
    """Min/max buckets of one metric: bucket i covers steps[i] … steps[i+1]; ``last`` is its newest value."""

    steps: tuple[int, ...]
    lows: tuple[Number, ...]
    highs: tuple[Number, ...]
    last: tuple[Number, ...]
    count: int


class History(Message):
    attempt_id: str
    series: dict[str, Series]


class AttemptShown(Message):
    attempt_id: str
    job_id: str
    job_name: str
    attempt: int
    started: float
    names: tuple[str, ...] = ()


class GpuTested(Message):
    """One GPU and how its test went; ``cure`` is what helps."""

    uuid: str
    name: str
    ok: bool
    text: str = ""
    cure: str = ""


class GpusTested(Message):
    gpus: tuple[GpuTested, ...]


class EmbeddedArgs(Message):
    """Set up the coordinator on this computer: the account to make there."""

    email: str
    password: str


class EmbeddedReady(Message):
    url: str


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``control.json`` (0600, written atomically): how to reach the core."""

    v: int
    transport: Literal["unix", "tcp"]
    address: str
    """Socket path, or ``127.0.0.1:port``."""
    token: str
    pid: int
    started: float
    """Start time of the process (psutil's create_time), so that a reused pid is not mistaken for the core."""
    version: str
