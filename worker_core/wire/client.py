"""What people and their scripts exchange with the coordinator (protocol.md §1e): workers, jobs, blobs."""

from typing import Annotated, Literal

import msgspec

from worker_core.wire.codec import Count, Message, Number, Sha256
from worker_core.wire.pairing import Host
from worker_core.wire.session import Authorization
from worker_core.wire.signed import Input
from worker_core.wire.vocabulary import Mode, Reason, Word


class CurrentJob(Message):
    id: str
    name: str
    attempt: int
    step: Count = 0
    progress: float = 0.0
    eta_s: float | None = None
    checkpoint_age_s: float | None = None


class WorkerView(Message, omit_defaults=False):
    """A worker as its account sees it; ``state`` is derived when read, never stored."""

    id: str
    name: str
    state: Word
    reasons: tuple[Reason, ...]
    console_mode: Mode
    local_mode: Mode
    mode_by: str
    mode_seen: bool
    """Whether the worker has observed the latest control document."""
    contact_age_s: float | None
    authorization: Authorization
    job_scopes: tuple[str, ...]
    host: Host
    version: str
    credential_store: str
    job: CurrentJob | None
    rev: int
    mode_since_s: float | None = None
    """Age of the console's last change of the mode."""
    approved_by: str = ""
    conflict: str | None = None
    """What shows that two machines use this worker's credential; none gets offers until a person decides."""
    rekeying: bool = False
    """A person chose Keep, and the worker that stays has not yet changed its key."""
    confirm_needed: bool = False
    """The coordinator was restored from a copy; a person must confirm the worker before it gets offers again."""


class AuditEntry(Message):
    """One line of what people and the coordinator did: who, what, to what, when (RFC 3339)."""

    id: int
    at: str
    actor: str
    act: str
    subject: str
    subject_id: str
    detail: str = ""


class Confirmed(Message):
    """Answer of ``POST /v1/workers/confirm``: the names of the workers that get offers again."""

    confirmed: tuple[str, ...]


class ModeRequest(Message):
    """Body of POST /v1/workers/{w}/drain, stop, resume; all optional."""

    reason: str = ""


class RenewRequest(Message):
    """Body of POST /v1/workers/{w}/renew: length from now, default the length chosen at approval."""

    authorization_s: Annotated[float, msgspec.Meta(ge=60, le=90 * 86400)] | None = None


class WorkerPatch(Message):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    job_scopes: tuple[str, ...] | None = None
    extend_while_healthy: bool | None = None


class JobSubmit(Message):
    """POST /v1/jobs: the spec as text of JSON, and its input blobs."""

    spec: str
    inputs: tuple[Input, ...] = ()


class JobCreated(Message):
    job_id: str


RetryStart = Literal["checkpoint", "scratch"]


class RetryRequest(Message, rename={"start": "from"}):
    """POST /v1/jobs/{j}/retry, optional: from the newest checkpoint, or from scratch."""

    start: RetryStart = "checkpoint"


class FlagView(Message, omit_defaults=False):
    """Something that went wrong in the training of one attempt."""

    attempt: int
    step: Count
    flag: Word
    text: str
    action: Word


class AttemptView(Message, omit_defaults=False):
    id: str
    ordinal: int
    epoch: int
    state: Word
    worker: str
    created_at: str
    ended_at: str | None
    step: Count
    progress: float
    eta_s: float | None
    error_class: str | None
    error: str | None
    next_seq: Count


class JobView(Message, omit_defaults=False):
    """A job; ``reason`` says in words why it waits, or how it ended."""

    id: str
    state: Word
    offered: bool
    kind: str
    name: str
    attempt: int
    worker: str | None
    reason: str
    created_at: str
    started_at: str | None
    ended_at: str | None
    step: Count
    progress: float
    eta_s: float | None
    phase: str = ""
    """What the job does now, in its own words: ``training``."""
    flags: tuple[FlagView, ...] = ()
    """What went wrong in its training: of all attempts in the view of one job, else of the newest."""
    cure: str = ""
    """What helps, when it failed."""
    attempts: tuple[AttemptView, ...] = ()
    spec: str | None = None
    """The spec's text, in the view of one job only."""


class ArtifactView(Message, omit_defaults=False):
    id: str
    name: str
    kind: Literal["checkpoint", "result", "input"]
    sha256: Sha256
    size: Count
    step: Count | None
    attempt: int
    created_at: str
    state: Literal["ready", "uploading"]


class StoredEvent(Message):
    """One event of GET /v1/attempts/{a}/events?after_seq=: the body with its number."""

    seq: Count
    event: dict[str, object]


class MetricPoint(Message):
    """One point of GET /v1/jobs/{j}/metrics?key=&points=, all attempts, superseded points left out."""

    name: str
    step: Count
    value: Number
    attempt: int
    time: float


class Page(Message, omit_defaults=False):
    """A cursor-paged list: ``items`` are views; ``next`` continues, null at the end."""

    items: list[dict[str, object]]
    next: str | None = None


class BlobRequest(Message):
    """POST /v1/blobs: announce an input; answered like W6 (:class:`worker_core.wire.work.ArtifactAnswer`)."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    sha256: Sha256
    size: Count


class LoginRequest(Message):
    """POST /v1/console/login by the `stoker login` command: answered with a :class:`TokenView`."""

    email: str
    password: str
    token_name: str = "stoker login"


class TokenView(Message, omit_defaults=False):
    token: str
    scopes: tuple[str, ...]
    account: str
