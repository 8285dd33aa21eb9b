"""What the journal keeps, as typed values."""

import asyncio
from dataclasses import dataclass
from typing import Literal

from worker_core.wire.codec import Count, Message
from worker_core.wire.events import Event, seqs_of
from worker_core.wire.frames import Done, JobError, Usage
from worker_core.wire.session import AttemptPhase
from worker_core.wire.work import Accepted

ArtifactKind = Literal["checkpoint", "result"]
UploadState = Literal["waiting", "sending", "done", "refused"]


class JournalError(Exception):
    """The journal cannot do its work; the text says why and what to do."""


class JournalFull(JournalError):
    """The volume of the journal has no space left."""


class NewAttempt(Message):
    """An attempt as it is accepted, before anything runs."""

    attempt_id: str
    job_id: str
    job_name: str
    kind: str
    ordinal: int
    epoch: int
    offer_jws: str
    accepted: Accepted


class CheckpointRow(Message):
    """The newest complete checkpoint of an attempt; its bytes lie among the blobs."""

    sha256: str
    size: Count
    step: Count
    saved: float
    """Unix seconds."""


class AttemptEnd(Message):
    """How an attempt ended here.

    ``finished``: the job said so itself, or failed; ``outcome`` is set. ``stopped``: it left because it was asked to,
    or was ended at the end of its grace. ``interrupted``: its core or its computer went away under it.
    """

    how: Literal["finished", "stopped", "interrupted"]
    outcome: Literal["succeeded", "failed"] | None = None
    error: JobError | None = None
    exit: int | None = None
    usage: Usage = Usage()
    forced: bool = False
    """Whether processes had to be killed."""
    note: str = ""
    """What a person should know although nothing failed."""


class AttemptRow(NewAttempt):
    """An attempt with all that happened to it."""

    phase: AttemptPhase
    created: float
    pid: int | None = None
    pid_started: float | None = None
    next_seq: Count = 0
    server_next_seq: Count = 0
    checkpoint: CheckpointRow | None = None
    done: Done | None = None
    """The job's own last word, kept from the moment it was said."""
    end: AttemptEnd | None = None


class UploadRow(Message):
    """A file that the coordinator shall have."""

    attempt_id: str
    sha256: str
    name: str
    kind: ArtifactKind
    size: Count
    step: Count | None = None
    state: UploadState = "waiting"
    reason: str = ""
    artifact_id: str | None = None
    upload_id: str | None = None


class SetAside(Message):
    """Something that the coordinator refuses for ever, or that could not be delivered: named, and not tried again."""

    attempt_id: str
    what: str
    reason: str
    at: float
    """Unix seconds."""


class HistoryAttempt(Message):
    """An attempt whose metrics can be shown."""

    attempt_id: str
    job_id: str
    job_name: str
    attempt: int
    started: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class EventSlice:
    """Events to send next. ``probe``: send the empty batch first, its answer tells where the numbers go on."""

    first_seq: int
    events: tuple[Event, ...]
    probe: bool = False

    def seq_of(self, index: int) -> int:
        """Return the number of the event at ``index``."""
        return self.first_seq + sum(seqs_of(event) for event in self.events[:index])


@dataclass(frozen=True)
class Appended:
    """Where an event got its place; ``seq`` is None when it was left out because the outbox is full."""

    seq: int | None
    committed: asyncio.Future[None]
