"""The channel to the core, over real pipes."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from worker_core.training.channel import WINDOW, Channel
from worker_core.wire.events import Log
from worker_core.wire.frames import FrameSplitter, Order, pack, unpack_frame


class Ends:
    """A channel and the core's ends of its pipes."""

    def __init__(self) -> None:
        self.frames, frames_write = os.pipe()
        orders_read, self.orders = os.pipe()
        self.open = {self.frames, frames_write, orders_read, self.orders}
        self.channel = Channel(frames_write, orders_read, grace_s=30)

    def order(self, order: Order) -> None:
        os.write(self.orders, pack(order))

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            self.open.discard(descriptor)
            os.close(descriptor)


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    # The orders pipe first: a thread that still reads a closed descriptor would read the next test's pipe.
    if made.orders in made.open:
        made.close(made.orders)
    until(lambda: not any(thread.name == "orders" for thread in threading.enumerate()))
    made.close(*made.open)


def until(condition: object) -> None:
    deadline = time.monotonic() + 10
    while not condition():  # type: ignore[operator] # pyright: ignore
        assert time.monotonic() < deadline
        time.sleep(0.005)


def line(text: str = "x") -> Log:
    return Log(ts=1.0, stream="stoker", text=text)


def test_frames_are_numbered_and_arrive_whole(ends: Ends) -> None:
    assert [ends.channel.send(line(f"line {n}")) for n in range(3)] == [1, 2, 3]
    frames = [unpack_frame(payload) for payload in FrameSplitter().feed(os.read(ends.frames, 65536))]
    assert [(frame.id, frame.body) for frame in frames] == [(n + 1, line(f"line {n}")) for n in range(3)]


def test_a_frame_counts_when_it_is_acknowledged(ends: Ends) -> None:
    frame_id = ends.channel.send(line())
    assert not ends.channel.is_acked(frame_id)
    assert not ends.channel.flush(0.05)
    ends.order(Order(ack=frame_id))
    assert ends.channel.flush(5)
    assert ends.channel.is_acked(frame_id)


def test_a_job_that_must_leave_does_not_wait_for_acknowledgements(ends: Ends) -> None:
    for _ in range(WINDOW):
        ends.channel.send(line())
    ends.order(Order(do="stop", grace_s=5))
    until(lambda: ends.channel.leave_by is not None)
    assert ends.channel.send(line()) == WINDOW + 1


def test_a_core_that_is_gone_is_noticed_and_nothing_waits_for_it(ends: Ends) -> None:
    ends.close(ends.orders)
    until(lambda: ends.channel.gone)
    for _ in range(WINDOW + 5):
        ends.channel.send(line())
    assert ends.channel.leave_by is not None
    assert not ends.channel.flush(0.5)


def test_a_broken_frames_pipe_means_the_core_is_gone(ends: Ends) -> None:
    ends.close(ends.frames)
    ends.channel.send(line())
    assert ends.channel.gone


def test_a_job_that_has_taken_all_its_memory_still_hears_its_core(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    read, refused = os.read, threading.Event()

    def refuse_once(descriptor: int, size: int) -> bytes:
        if not refused.is_set():
            refused.set()
            raise MemoryError
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", refuse_once)
    ends.order(Order(ack=1))  # ends the read that has begun
    frame = ends.channel.send(line())
    ends.order(Order(ack=frame))
    until(lambda: refused.is_set() and ends.channel.is_acked(frame))
    assert not ends.channel.gone


def test_garbage_instead_of_orders_means_the_core_is_gone(ends: Ends, capfd: pytest.CaptureFixture[str]) -> None:
    os.write(ends.orders, b"\xff\xff\xff\xffGET / HTTP/1.1")
    until(lambda: ends.channel.gone)
    assert "cannot be read" in capfd.readouterr().err


def test_a_checkpoint_order_is_taken_once_and_the_earliest_date_to_leave_stays(ends: Ends) -> None:
    ends.order(Order(do="checkpoint", grace_s=5))
    until(ends.channel.take_checkpoint_order)
    assert not ends.channel.take_checkpoint_order()
    ends.channel.leave_in(1.0)
    first = ends.channel.leave_by
    ends.channel.leave_in(50.0)
    assert ends.channel.leave_by == first
