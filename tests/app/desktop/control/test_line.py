"""A line carries bytes both ways, says once that it is over, and never waits."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QObject

from app.desktop.control.line import MOST_UNSENT_BYTES, Line

Wait = Callable[..., None]


class Heard:
    """What a line said."""

    def __init__(self, line: Line) -> None:
        self.opened = 0
        self.closed = 0
        self.data = b""
        line.opened.connect(self._on_open)
        line.received.connect(self._on_bytes)
        line.closed.connect(self._on_closed)

    def _on_open(self) -> None:
        self.opened += 1

    def _on_bytes(self, data: bytes) -> None:
        self.data += data

    def _on_closed(self) -> None:
        self.closed += 1


def _call(owner: QObject, address: str | tuple[str, int]) -> tuple[Line, Heard]:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    line = Line(owner, socket.socket(family, socket.SOCK_STREAM))
    heard = Heard(line)
    line.connect_to(address)
    return line, heard


@pytest.fixture(params=["unix", "tcp"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> socket.socket:
    if request.param == "tcp":
        return socket.create_server(("127.0.0.1", 0))
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(str(tmp_path / "s"))
    made.listen(5)
    return made


def test_bytes_go_both_ways_also_those_written_before_it_was_open(
    listener: socket.socket, owner: QObject, wait: Wait
) -> None:
    with listener:
        line, heard = _call(owner, listener.getsockname())
        line.write(b"early ")
        wait(lambda: heard.opened)
        peer, _ = listener.accept()
        with peer:
            line.write(b"late")
            assert _read(peer, 10) == b"early late"
            peer.sendall(b"x" * 100_000)
            wait(lambda: len(heard.data) == 100_000)
        wait(lambda: heard.closed)
    assert (heard.opened, heard.closed, line.is_open) == (1, 1, False)


def test_nobody_at_the_other_end_is_told_in_a_later_turn(tmp_path: Path, owner: QObject, wait: Wait) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    for nowhere in (str(tmp_path / "nobody"), address):
        _, heard = _call(owner, nowhere)
        assert heard.closed == 0
        wait(lambda heard=heard: heard.closed)
        assert (heard.opened, heard.closed) == (0, 1)


def test_a_full_queue_of_callers_counts_as_nobody(tmp_path: Path, owner: QObject, wait: Wait) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        calls = [_call(owner, str(tmp_path / "s")) for _ in range(4)]
        wait(lambda: any(heard.closed for _, heard in calls))
        for line, _ in calls:
            line.abort()


def test_what_is_too_much_for_the_other_end_waits_and_then_ends_the_line(
    listener: socket.socket, owner: QObject, wait: Wait
) -> None:
    with listener:
        line, heard = _call(owner, listener.getsockname())
        wait(lambda: heard.opened)
        peer, _ = listener.accept()
        with peer:
            line.write(b"y" * (MOST_UNSENT_BYTES - 1))
            line.write(b"z")
            assert _read(peer, MOST_UNSENT_BYTES, wait)[-1:] == b"z"
            for _ in range(20):
                line.write(b"y" * (MOST_UNSENT_BYTES // 2))
            assert heard.closed == 1
            assert not line.is_open


def test_after_abort_nothing_is_said(listener: socket.socket, owner: QObject, wait: Wait) -> None:
    with listener:
        line, heard = _call(owner, listener.getsockname())
        wait(lambda: heard.opened)
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"unheard")
            line.abort()
            assert _is_over(peer)
    assert (heard.data, heard.closed) == (b"", 0)


def _is_over(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:  # because it had not read all
        return True


def _read(peer: socket.socket, wanted: int, wait: Wait | None = None) -> bytes:
    """Read from the other end, while the line's own event loop runs where it has to."""
    got = bytearray()
    peer.settimeout(15)
    if wait is None:
        while len(got) < wanted:
            got += peer.recv(65536)
        return bytes(got)
    peer.setblocking(False)

    def read_some() -> bool:
        try:
            got.extend(peer.recv(1 << 20))
        except BlockingIOError:
            return False
        return len(got) >= wanted

    wait(read_some)
    return bytes(got)
