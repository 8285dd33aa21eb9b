"""Starts a job inside bubblewrap: own namespaces, a system to read, one folder to write, no capabilities.

bwrap forks the job's first process and waits before it lets it run; in between its limits are set, so that nothing
of the job ever runs without them. bwrap itself stays outside as the process that the core waits for. It is told to
stop through the job's own pipe and never by a signal, and it must not die with the core: a job whose core is gone
saves a checkpoint first. When its first inner process is killed, the kernel ends everything in the namespace.
"""

import json
import logging
import os
import pwd
import select
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import cast

from worker_core.jobs.process import ProcessIdentity, identify
from worker_core.jobs.sandbox.bounds import Bounds
from worker_core.jobs.sandbox.bubblewrap_view import NO_COPIES, NOTHING_HIDDEN, Hidden, device_files, view_arguments
from worker_core.jobs.sandbox.cell import Cell, ContainedBy, Held
from worker_core.jobs.sandbox.device_nodes import copy_nodes
from worker_core.jobs.sandbox.seccomp import system_call_filter
from worker_core.machine.priority import lower_priority

log = logging.getLogger(__name__)

_START_S = 20.0
"""How long bwrap may take to name the process it made; it takes milliseconds."""
_MAX_STATUS_BYTES = 1 << 16
_DEVICES = ".devices"
"""Folder of the workspace."""


class BubblewrapFailed(OSError):
    """The sandbox could not be made; the text is what bwrap says."""


@dataclass(frozen=True)
class Bubblewrap:
    """Containment by bubblewrap."""

    program: Path
    bounds: Bounds
    hidden: Hidden = NOTHING_HIDDEN
    detail: str = ""
    by: ContainedBy = "bubblewrap"
    enforces_network: bool = True

    @property
    def limits(self) -> tuple[str, ...]:
        """What is bounded."""
        return self.bounds.names

    @contextmanager
    def launch(self, cell: Cell) -> Generator["BubblewrapLaunch"]:
        """Open what bwrap reads and writes during the start."""
        with ExitStack() as opened:
            copies = copy_nodes(device_files(cell), cell.workspace / _DEVICES) if os.getuid() == 0 else NO_COPIES
            view = view_arguments(cell, self.hidden, copies=copies)
            passwd = _in_memory(opened, "passwd", _passwd(cell.workspace).encode())
            group = _in_memory(opened, "group", f"job:x:{os.getgid()}:\n".encode())
            view[1:1] = ["--ro-bind-data", str(passwd), "/etc/passwd", "--ro-bind-data", str(group), "/etc/group"]
            inherit = [passwd, group]
            program = system_call_filter()
            if program is not None:
                inherit.append(_in_memory(opened, "seccomp", program))
                view += ["--seccomp", str(inherit[-1])]
            status, status_end = _pipe(opened)
            gate_end, gate = _pipe(opened)
            view += ["--json-status-fd", str(status_end.fileno()), "--block-fd", str(gate_end.fileno())]
            arguments = _in_memory(opened, "arguments", b"\0".join(map(os.fsencode, view)) + b"\0")
            yield BubblewrapLaunch(
                cell=cell,
                bounds=self.bounds,
                start=[str(self.program), "--args", str(arguments), "--"],
                inherit=(*inherit, status_end.fileno(), gate_end.fileno(), arguments),
                status=status,
                status_end=status_end,
                gate=gate,
            )


@dataclass
class BubblewrapLaunch:
    """One start."""

    cell: Cell
    bounds: Bounds
    start: list[str]
    inherit: tuple[int, ...]
    status: FileIO
    """What bwrap says of its process, and the end that it writes to, which is its alone once it runs."""
    status_end: FileIO
    gate: FileIO
    """A byte through it lets the job run."""

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return bwrap's command line; its arguments come through a file of their own."""
        return [*self.start, *command]

    def release(self, process: subprocess.Popen[bytes]) -> Held:
        """Bound the inner process and open the gate."""
        self.status_end.close()
        inner = self._inner()
        lower_priority(process.pid)
        lower_priority(inner.pid)
        group = self.bounds.bind(inner.pid, self.cell)
        self.gate.write(b"\n")
        status = FileIO(os.dup(self.status.fileno()), "rb")
        return Held(inner=inner, group=group, codes_from_shell=True, status=status)

    def _inner(self) -> ProcessIdentity:
        """Return the process that bwrap made and halted; its first line comes in pieces."""
        deadline, text = time.monotonic() + _START_S, b""
        while b"\n" not in text and len(text) < _MAX_STATUS_BYTES:
            ready, _, _ = select.select([self.status], [], [], max(0.0, deadline - time.monotonic()))
            piece = (self.status.read(_MAX_STATUS_BYTES) or b"") if ready else b""
            if not piece:
                raise BubblewrapFailed("bubblewrap made no sandbox" + ("" if ready else f" within {_START_S:.0f} s"))
            text += piece
        pid = cast("dict[str, object]", json.loads(text.partition(b"\n")[0])).get("child-pid")
        if not isinstance(pid, int):
            raise BubblewrapFailed("bubblewrap did not name the process it made")
        return identify(pid)


def _pipe(opened: ExitStack) -> tuple[FileIO, FileIO]:
    reader, writer = os.pipe()
    return opened.enter_context(FileIO(reader, "rb")), opened.enter_context(FileIO(writer, "wb"))


def _in_memory(opened: ExitStack, name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name)
    opened.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _passwd(workspace: Path) -> str:
    """Return the one line of /etc/passwd by which a job finds its name and its home."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = "job"
    return f"{name}:x:{os.getuid()}:{os.getgid()}::{workspace}/tmp:/bin/sh\n"
