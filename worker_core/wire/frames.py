"""Frames between the core and a job process: 4-byte big-endian length, then JSON of at most 1 MiB.

Job to core: an id and one body; the core acknowledges the id after the journal's commit. Core to job: acks and orders.
"""

import struct
from typing import Literal, cast

from worker_core.wire.codec import BadMessage, Count, Message, Sha256
from worker_core.wire.codec import decode as decode_json
from worker_core.wire.codec import encode as encode_json
from worker_core.wire.events import CheckpointSaved, Dropped, Flag, Log, Metric, Status
from worker_core.wire.vocabulary import Outcome, Word

MAX_FRAME_BYTES = 1 << 20
_LENGTH = struct.Struct(">I")


class ArtifactReady(Message, omit_defaults=True, tag_field="t", tag="artifact"):
    """A complete file inside the workspace; kind ``checkpoint`` is what an attempt resumes from."""

    name: str
    kind: str
    path: str
    sha256: Sha256
    size: Count
    step: Count | None = None


class JobError(Message):
    """Why a job failed: our class, the message, the traceback where there is one."""

    failure: Word
    """A :data:`worker_core.wire.vocabulary.FailureClass`."""
    message: str
    traceback: str = ""


class Usage(Message):
    """What an attempt used."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss_bytes: Count = 0
    steps: Count = 0


class Done(Message, omit_defaults=True, tag_field="t", tag="done"):
    """The last frame of a job."""

    outcome: Outcome | Literal["stopped"]
    """``stopped``: left on request (or because the pipe closed) with its work saved; not an end of the job."""
    error: JobError | None = None
    usage: Usage = Usage()


FrameBody = Metric | Log | Status | CheckpointSaved | Flag | Dropped | ArtifactReady | Done
_ANY_BODY: type[FrameBody] = cast("type[FrameBody]", FrameBody)


LAST_WORD_FILE = "last-word.json"


class LastWord(Message):
    """The file ``last-word.json`` of a workspace: how the job ended, for a core that was not there to hear it."""

    done: Done
    exit: int
    artifacts: tuple[ArtifactReady, ...] = ()
    """Files that the core had not acknowledged."""


class _FrameId(Message):
    id: Count


class Frame(Message):
    """Job to core: an id to be acknowledged and one body. On the pipe both stand in one flat object."""

    id: Count
    body: FrameBody


class Order(Message, omit_defaults=True):
    """Core to job: an acknowledgement, or something to do."""

    ack: Count | None = None
    do: Literal["checkpoint", "stop"] | None = None
    grace_s: float | None = None


def pack(message: Frame | Order) -> bytes:
    """Return the bytes of one frame; raises ValueError when it is too long."""
    if isinstance(message, Frame):
        payload = b'{"id":%d,' % message.id + encode_json(message.body)[1:]
    else:
        payload = encode_json(message)
    if len(payload) > MAX_FRAME_BYTES:
        raise ValueError(f"frame of {len(payload)} bytes is above {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(payload)) + payload


def unpack_frame(payload: bytes) -> Frame:
    """Read the JSON of one frame from a job; raises :class:`BadMessage`."""
    return Frame(id=decode_json(payload, _FrameId).id, body=decode_json(payload, _ANY_BODY))


def unpack_order(payload: bytes) -> Order:
    """Read the JSON of one frame from the core; raises :class:`BadMessage`."""
    return decode_json(payload, Order)


class FrameSplitter:
    """Cuts a byte stream into the payloads of its frames; raises :class:`BadMessage` and is then unusable."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the payloads that are complete now."""
        self._buffer += data
        payloads: list[bytes] = []
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_FRAME_BYTES:
                raise BadMessage(f"frame of {length} bytes announced; the limit is {MAX_FRAME_BYTES}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                break
            payloads.append(bytes(self._buffer[_LENGTH.size : end]))
            del self._buffer[:end]
        return payloads
