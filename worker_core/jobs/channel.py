"""The core's side of a job's frame pipe: frames in, acknowledgements and orders out."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

from worker_core.jobs.pipes import PipeReader, PipeWriter
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.wire.frames import Frame, FrameSplitter, Order, pack, unpack_frame


class FrameChannel:
    """Speaks with one job. An acknowledged frame means that the journal has it, and all before it."""

    def __init__(self, frames: int, orders: int, attempt_id: str) -> None:
        self._reader = PipeReader(frames, f"frames of {attempt_id}")
        self._writer = PipeWriter(orders, f"orders of {attempt_id}")
        self._waiting: dict[asyncio.Future[None], int] = {}
        """The newest frame in each commit that is still to come."""

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield the job's frames; raises :class:`worker_core.wire.codec.BadMessage` for bytes that are none."""
        splitter = FrameSplitter()
        async for data in self._reader.chunks():
            for payload in splitter.feed(data):
                yield unpack_frame(KNOWN_SECRETS.redact_bytes(payload))

    def ack_after(self, frame_id: int, committed: asyncio.Future[None]) -> None:
        """Acknowledge a frame when ``committed`` is done; of frames in one commit the last stands for all."""
        if committed not in self._waiting:
            committed.add_done_callback(self._ack_committed)
        self._waiting[committed] = frame_id

    def ack(self, frame_id: int) -> None:
        """Acknowledge a frame, and all before it, now."""
        self._writer.send(pack(Order(ack=frame_id)))

    def order(self, do: Literal["checkpoint", "stop"], grace_s: float) -> None:
        """Tell the job to do something."""
        self._writer.send(pack(Order(do=do, grace_s=grace_s)))

    def close(self) -> None:
        """Leave the job alone: its orders end, and its frames are read but not kept."""
        self._reader.close()
        self._writer.close()

    def _ack_committed(self, committed: asyncio.Future[None]) -> None:
        newest = self._waiting.pop(committed)
        if not committed.cancelled():
            self.ack(newest)
