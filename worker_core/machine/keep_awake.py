"""Keeps this machine from falling asleep while asked to. The display is left alone."""

import os
import subprocess
import sys
import threading
from importlib import import_module
from typing import Any, Protocol

from worker_core.machine.spawn import spawn

REASON = "A training job runs"
_ANSWER_S = 5.0


class KeepAwake(Protocol):
    """One hold on the machine. All of it may wait for the system, so it is called in a thread."""

    def hold(self) -> None:
        """Hold from now on; raises OSError or ValueError where the system refuses or knows no such thing."""
        ...

    def release(self) -> None:
        """Let go; harmless when nothing is held."""
        ...


class NothingKeepsAwake:
    """A system that has no way for it, or a script in its place."""

    def hold(self) -> None:
        raise OSError("nothing here can keep the machine awake")

    def release(self) -> None:
        return


class LogindAwake:
    """A block lock of logind on sleep: it is given up with its descriptor, so also when this process dies.

    https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.login1.html
    """

    def __init__(self) -> None:
        self._lock: int | None = None

    def hold(self) -> None:
        """Take the lock; raises OSError."""
        if self._lock is not None:
            return
        jeepney: Any = import_module("jeepney")
        blocking: Any = import_module("jeepney.io.blocking")
        name, path = "org.freedesktop.login1", "/org/freedesktop/login1"
        manager = jeepney.DBusAddress(path, bus_name=name, interface=f"{name}.Manager")
        words = ("sleep", "Stoker", REASON, "block")
        with blocking.open_dbus_connection(bus="SYSTEM", enable_fds=True) as line:
            answer = line.send_and_get_reply(
                jeepney.new_method_call(manager, "Inhibit", "ssss", words), timeout=_ANSWER_S
            )
        if answer.header.message_type is jeepney.MessageType.error:
            raise OSError(str(answer.body[0]) if answer.body else "logind refuses")
        self._lock = answer.body[0].to_raw_fd()

    def release(self) -> None:
        """Give the lock up."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


class MacAwake:
    """``caffeinate -i``, which also ends with this process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self) -> None:
        """Start it; raises OSError."""
        if self._process is None or self._process.poll() is not None:
            self._process = spawn(["/usr/bin/caffeinate", "-i", "-w", str(os.getpid())])

    def release(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait(_ANSWER_S)


class WindowsAwake:
    """The execution state belongs to a thread and ends with it: one thread holds it.

    https://learn.microsoft.com/windows/win32/api/winbase/nf-winbase-setthreadexecutionstate
    """

    _CONTINUOUS, _SYSTEM_REQUIRED = 0x80000000, 0x00000001

    def __init__(self) -> None:
        self._over: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def hold(self) -> None:
        """Start the thread that holds."""
        if self._over is None:
            self._over = threading.Event()
            self._thread = threading.Thread(target=self._hold_until, args=(self._over,), name="awake", daemon=True)
            self._thread.start()

    def release(self) -> None:
        """End it."""
        over, self._over = self._over, None
        if over is not None and self._thread is not None:
            over.set()
            self._thread.join(_ANSWER_S)

    def _hold_until(self, over: threading.Event) -> None:
        if sys.platform == "win32":
            import ctypes

            state = ctypes.windll.kernel32.SetThreadExecutionState
            state(self._CONTINUOUS | self._SYSTEM_REQUIRED)
            over.wait()
            state(self._CONTINUOUS)


def system_awake() -> KeepAwake:
    """Return the way of this operating system."""
    ways: dict[str, type[LogindAwake | MacAwake | WindowsAwake]] = {
        "linux": LogindAwake,
        "darwin": MacAwake,
        "win32": WindowsAwake,
    }
    way = ways.get(sys.platform)
    return way() if way is not None else NothingKeepsAwake()
