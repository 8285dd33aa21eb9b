"""Work (W1–W12): polls, leases, events, artifacts and the end of an attempt.

Every write names the epoch it believes in; the coordinator checks it in the transaction of the effect.
"""

from typing import Annotated, Literal

import msgspec

from worker_core.wire.codec import Count, Message, Sha256
from worker_core.wire.events import Event
from worker_core.wire.frames import JobError, Usage
from worker_core.wire.session import Authorization, Control, Health, Observed
from worker_core.wire.signed import Input
from worker_core.wire.vocabulary import Mode, Outcome, Reason, Word

CHUNK_BYTES = 8 << 20
OFFSET_HEADER = "Upload-Offset"
DIGEST_HEADER = "Content-Digest"
"""RFC 9530, ``sha-256=:<base64>:`` of the chunk."""


class HeldLease(Message):
    attempt_id: str
    epoch: int


class PollRequest(Message):
    """W1 request: one is always open, busy or idle."""

    observed: Observed = Observed()
    local_mode: Mode = "run"
    state: Word = "available"
    """A :data:`worker_core.wire.vocabulary.WorkerState`."""
    reasons: tuple[Reason, ...] = ()
    free_slots: Count = 0
    leases: tuple[HeldLease, ...] = ()
    held_gpus: Annotated[tuple[str, ...], msgspec.Meta(max_length=64)] = ()
    """UUIDs of GPUs that no job may be given now: quarantined, in use by others, not yet tested."""
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 25.0


class PollAnswer(Message, omit_defaults=True):
    """W1 answer (or 204): ``offer`` is a JWS of :class:`worker_core.wire.signed.Offer`."""

    control: Control | None = None
    offer: str | None = None
    leases: tuple["LeaseState", ...] = ()
    """Only leases whose verdict is not ``ok``: a cancel answers the parked poll at once."""


class AcceptRequest(Message):
    """W2 request."""

    epoch: int


class Lease(Message):
    epoch: int
    ttl: float


class ResumePoint(Message):
    """Checkpoint of an earlier attempt to continue from; its bytes come through W10."""

    attempt_id: str
    step: Count
    sha256: Sha256
    size: Count


class Limits(Message):
    """Limits of the attempt, from the spec."""

    max_runtime_s: float
    max_disk_bytes: Count
    stop_grace_s: float
    silence_s: float = 300.0
    stall_s: float = 120.0
    """Shortest time without a step that is told as a stall."""
    on_stall: Literal["warn", "stop"] = "warn"
    max_offline_s: float = 3600.0
    """How long the job runs on without an answered heartbeat."""
    on_lease_loss: Literal["continue", "stop"] = "continue"
    """What becomes of the running job when its lease may have gone to another."""
    max_memory_bytes: Count | None = None
    """Most memory of the whole tree; None leaves it to the worker's own share."""
    network: Literal["none", "any"] = "none"
    """Whether the job asks for the network; the worker's owner decides."""


class Accepted(Message):
    """W2 answer. ``spec`` is the exact text whose sha256 stands in the signed offer."""

    lease: Lease
    spec: str
    job_id: str
    job_name: str
    attempt: int
    """Ordinal of this attempt within its job, from 1."""
    limits: Limits
    inputs: tuple[Input, ...] = ()
    resume_from: ResumePoint | None = None


class Decline(Message):
    """W3 request."""

    epoch: int
    reason: str
    retry_after_s: float = 0.0


class LeaseReport(Message):
    attempt_id: str
    epoch: int
    phase: Word
    """A :data:`worker_core.wire.session.AttemptPhase`."""
    step: Count = 0
    pct: float = 0.0
    """Share done, in percent."""
    eta_s: float | None = None
    checkpoint_age_s: float | None = None


class OutboxSize(Message):
    """What still waits on the workstation."""

    events: Count = 0
    bytes: Count = 0


class Heartbeat(Message):
    """W4 request; ``n`` grows with each heartbeat of a connection, older answers are ignored."""

    n: Count
    observed: Observed = Observed()
    local_mode: Mode = "run"
    state: Word = "available"
    """A :data:`worker_core.wire.vocabulary.WorkerState`."""
    reasons: tuple[Reason, ...] = ()
    health: Health = Health()
    leases: tuple[LeaseReport, ...] = ()
    outbox: OutboxSize = OutboxSize()


class LeaseState(Message):
    attempt_id: str
    verdict: Literal["ok", "revived", "cancel", "superseded", "unknown"]
    ttl: float = 0.0


class HeartbeatAnswer(Message, omit_defaults=True):
    """W4 answer."""

    n: Count
    authorization: Authorization
    control: Control | None = None
    leases: tuple[LeaseState, ...] = ()


class EventBatch(Message):
    """W5 request: events ``first_seq``, ``first_seq + 1``, …; sequence numbers start at 0 and have no gap."""

    epoch: int
    first_seq: Count
    events: tuple[Event, ...]


class EventsTaken(Message):
    """W5 answer: the first sequence number the coordinator lacks."""

    next_seq: Count


class ArtifactRequest(Message):
    """W6 request; kind ``checkpoint`` or ``result``. POST /v1/blobs takes the same with kind ``input``."""

    epoch: int
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    kind: Literal["checkpoint", "result"]
    sha256: Sha256
    size: Count
    step: Count | None = None


class UploadTicket(Message):
    id: str
    offset: Count
    chunk: Count = CHUNK_BYTES


class ArtifactAnswer(Message, omit_defaults=True):
    """W6 answer: ``exists`` (nothing to send), or an upload to continue at its offset."""

    artifact_id: str | None = None
    upload: UploadTicket | None = None
    exists: bool = False


class UploadFinish(Message):
    """W9 request."""

    sha256: Sha256
    size: Count


class UploadFinished(Message):
    """W9 answer: what the coordinator hashed. Only this lets a worker give up its own copy."""

    sha256: Sha256
    size: Count


class MissingArtifact(Message):
    sha256: Sha256
    reason: str


class Completion(Message):
    """W11 request; the same body replays the same answer."""

    epoch: int
    outcome: Outcome
    final_seq: Count
    """Number of events of the attempt: all of 0 … final_seq − 1 must have arrived."""
    exit: int | None = None
    artifacts: tuple[Sha256, ...] = ()
    missing: tuple[MissingArtifact, ...] = ()
    error: JobError | None = None
    usage: Usage = Usage()


class Recorded(Message):
    """W11 answer: the state the attempt has now."""

    recorded: Literal["succeeded", "failed", "canceled"]


class Release(Message):
    """W12 request: give the job back."""

    epoch: int
    reason: Word
    """A :data:`worker_core.wire.vocabulary.ReleaseReason`; only ``crash`` counts as a failure."""
    checkpoint: Sha256 | None = None
    step: Count | None = None
