"""Starts a job under macOS's sandbox-exec: a profile that refuses what it does not name. Untested on a Mac.

sandbox-exec is called deprecated and is what Bazel, Chromium and others use for want of another that needs neither an
administrator nor a signed app. It replaces itself by the command, so the process is the job itself.
"""

import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from worker_core.jobs.sandbox.bubblewrap_view import NOTHING_HIDDEN, Hidden
from worker_core.jobs.sandbox.cell import Cell, ContainedBy, Held
from worker_core.jobs.sandbox.watched_bounds import NO_GROUPS, Bounds
from worker_core.machine.priority import lower_priority

SANDBOX_EXEC = Path("/usr/bin/sandbox-exec")
_SYSTEM = ("/usr", "/bin", "/sbin", "/System", "/Library", "/opt/homebrew", "/private/var/db/dyld", "/private/etc")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper")
_GIVEN = ("inputs", "code", "resume", "spec.json", "job.json")
_GPU = ("IOAccelerator", "IOSurfaceRootUserClient", "AGXDeviceUserClient", "AppleGraphicsDeviceControlClient")


@dataclass(frozen=True)
class Seatbelt:
    """Containment by a sandbox profile."""

    program: Path = SANDBOX_EXEC
    bounds: Bounds = NO_GROUPS
    hidden: Hidden = NOTHING_HIDDEN
    detail: str = ""
    by: ContainedBy = "sandbox-exec"
    enforces_network: bool = True

    @property
    def limits(self) -> tuple[str, ...]:
        """What is bounded."""
        return self.bounds.names

    @contextmanager
    def launch(self, cell: Cell) -> Generator["SeatbeltLaunch"]:
        """Write the profile of one job."""
        yield SeatbeltLaunch(self.program, profile(cell, self.hidden))


@dataclass
class SeatbeltLaunch:
    """One start."""

    program: Path
    profile: str
    inherit: tuple[int, ...] = ()

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command under its profile."""
        return [str(self.program), "-p", self.profile, *command]

    def release(self, process: subprocess.Popen[bytes]) -> Held:
        """Put the job behind everything else; its profile holds from its first instruction."""
        lower_priority(process.pid)
        return Held()


def profile(cell: Cell, hidden: Hidden = NOTHING_HIDDEN) -> str:
    """Return the profile (SBPL) of one job: later rules win, so what is hidden and what is given stand last."""
    readable = [*_SYSTEM, *(str(folder) for folder in cell.readable), str(cell.workspace)]
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork)",
        "(allow process-exec)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow file-read-metadata)",
        "(allow ipc-posix-sem)",
        "(allow ipc-posix-shm)",
        _allow("file-read*", readable),
        _allow("file-read*", _DEVICES, how="literal"),
        _allow("file-write*", ["/dev/null"], how="literal"),
        _allow("file-write*", [str(cell.workspace)]),
        '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
        '(allow mach-lookup (global-name "com.apple.MTLCompilerService"))',
        f"(allow iokit-open {' '.join(f'(iokit-user-client-class {_quoted(name)})' for name in _GPU)})",
    ]
    if hidden.folders:
        lines.append(_rule("deny", "file-read* file-write*", [str(folder) for folder in hidden.folders]))
        lines.append(_allow("file-read* file-write*", [str(cell.workspace)]))
    lines.append(_rule("deny", "file-write*", [str(cell.workspace / name) for name in _GIVEN]))
    if cell.network:
        lines += ["(allow network*)", '(allow mach-lookup (global-name "com.apple.dnssd.service"))']
    return "\n".join(lines) + "\n"


def _allow(what: str, paths: Sequence[str], how: str = "subpath") -> str:
    return _rule("allow", what, paths, how)


def _rule(verdict: str, what: str, paths: Sequence[str], how: str = "subpath") -> str:
    return f"({verdict} {what} {' '.join(f'({how} {_quoted(path)})' for path in paths)})"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
