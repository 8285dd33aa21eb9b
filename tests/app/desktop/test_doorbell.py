"""A second start rings at the first, which answers it and nobody else for long."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QObject

from app.desktop.doorbell_posix import Doorbell, ring

Wait = Callable[..., None]


@pytest.fixture
def name(tmp_path: Path) -> str:
    return str(tmp_path / "bell")


def _ring_from_elsewhere(name: str) -> subprocess.Popen[str]:
    code = f"from app.desktop.doorbell_posix import ring; print(ring({name!r}, b'raise\\n'))"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_ring_is_heard_and_answered(name: str, owner: QObject, wait: Wait) -> None:
    bell = Doorbell(owner, name)
    heard: list[bytes] = []
    bell.rung.connect(heard.append)
    with _ring_from_elsewhere(name) as other:
        wait(lambda: other.poll() is not None, timeout_ms=60_000)
        assert other.stdout is not None
        assert other.stdout.read() == "True\n"
    assert heard == [b"raise\n"]
    bell.close()
    assert not os.path.exists(name)
    assert ring(name, b"raise\n") is None


def test_only_its_owner_may_ring_and_a_name_left_over_is_taken(name: str, owner: QObject) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ended:
        ended.bind(name)
    assert ring(name, b"raise\n") is None
    bell = Doorbell(owner, name)
    assert stat.S_IMODE(os.stat(name).st_mode) & 0o077 == 0
    bell.close()


def test_a_caller_that_says_too_much_is_not_listened_to_and_many_are_not_let_in(
    name: str, owner: QObject, wait: Wait
) -> None:
    bell = Doorbell(owner, name)
    heard: list[bytes] = []
    bell.rung.connect(heard.append)
    callers = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(12)]
    for caller in callers[:-1]:
        caller.setblocking(False)
        caller.connect_ex(name)
    callers[0].send(b"x" * 1000)
    wait(lambda: _is_hung_up(callers[0]))
    wait(lambda: sum(map(_is_hung_up, callers[:-1])) >= 2)
    assert heard == []
    for caller in callers:
        caller.close()
    bell.close()


def _is_hung_up(caller: socket.socket) -> bool:
    try:
        return caller.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_nobody_but_windows_pays_for_qt_s_own_sockets() -> None:
    code = "import sys, app.desktop.application; print('PySide6.QtNetwork' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False\n"
