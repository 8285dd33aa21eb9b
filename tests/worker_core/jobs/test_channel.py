"""The core's side of the frame pipe: what an acknowledgement promises."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from worker_core.jobs.channel import FrameChannel
from worker_core.wire.frames import FrameSplitter, unpack_order


class Pipes:
    """Both pipes of a job, of which the test is the job's end."""

    def __init__(self) -> None:
        self.frames_out, self._frames_in = os.pipe()[::-1]
        self.orders_in, self._orders_out = os.pipe()
        os.set_blocking(self.orders_in, False)
        self._splitter = FrameSplitter()

    def open(self) -> FrameChannel:
        return FrameChannel(self._frames_in, self._orders_out, "att_1")

    async def next_acks(self) -> list[int | None]:
        """Return the acknowledgements that come next."""
        async with asyncio.timeout(10):
            while True:
                try:
                    orders = self._splitter.feed(os.read(self.orders_in, 65536))
                except BlockingIOError:
                    await asyncio.sleep(0.01)
                else:
                    return [unpack_order(order).ack for order in orders]


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    opened = Pipes()
    yield opened
    os.close(opened.frames_out)
    os.close(opened.orders_in)


async def test_a_frame_is_acknowledged_by_its_own_commit_and_not_by_an_earlier_one(pipes: Pipes) -> None:
    channel = pipes.open()
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
    channel.ack_after(1, first)
    channel.ack_after(2, first)
    channel.ack_after(3, second)
    first.set_result(None)
    assert await pipes.next_acks() == [2]
    second.set_result(None)
    assert await pipes.next_acks() == [3]
    channel.close()


async def test_frames_of_one_commit_are_acknowledged_together(pipes: Pipes) -> None:
    channel = pipes.open()
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for frame_id in range(1, 101):
        channel.ack_after(frame_id, committed)
    committed.set_result(None)
    assert await pipes.next_acks() == [100]
    channel.close()
