"""Control groups (version 2) for jobs, where the system lets this user make them, as under systemd with Delegate=.

A group with processes of its own cannot pass controllers on, so the core first moves itself into a leaf beside the
jobs. It does that only where nobody else's processes are in its group.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_NEEDED = ("memory", "pids")
_WELCOME = ("cpu", "io")
_WHERE_OFFERED = (
    ("memory.swap.max", "0"),
    ("memory.oom.group", "1"),
    ("cpu.weight", "10"),  # others have 100, however many sessions the job makes
    ("io.weight", "10"),
)
_LEAF = "core"
_JOB = "job-"


class ControlGroups:
    """The groups of jobs below ``home``, a group that is ours to divide."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @property
    def home(self) -> Path:
        """The group that is divided."""
        return self._home

    def make(self, attempt_id: str, memory_bytes: int, processes: int) -> Path | None:
        """Make the group of one job; None when the system refuses."""
        group = self._home / f"{_JOB}{attempt_id}"
        try:
            group.mkdir(exist_ok=True)
            _write(group / "memory.max", str(memory_bytes))
            _write(group / "pids.max", str(processes))
            for name, value in _WHERE_OFFERED:
                if (group / name).exists():
                    _write(group / name, value)
        except OSError as error:
            log.warning("no control group for %s: %s", attempt_id, error)
            return None
        return group

    def enter(self, group: Path, pid: int) -> None:
        """Put a process into a group; raises OSError."""
        _write(group / "cgroup.procs", str(pid))

    def sweep(self) -> None:
        """Remove the empty groups of earlier jobs."""
        for group in self._home.glob(f"{_JOB}*"):
            remove_group(group)


def kill_group(group: Path) -> None:
    """Let the kernel end everything in a group at once; what an older kernel cannot, is done one by one elsewhere."""
    try:
        _write(group / "cgroup.kill", "1")
    except OSError as error:
        log.debug("the control group %s cannot be ended as one: %s", group.name, error)


def remove_group(group: Path) -> None:
    """Remove a group in which nothing runs any more; one that is still in use stays for the next sweep."""
    try:
        group.rmdir()
    except OSError as error:
        log.debug("the control group %s stays: %s", group.name, error)


def find_control_groups(root: Path = _ROOT, own: Path = _OWN, pid: int | None = None) -> ControlGroups | None:
    """Return the groups that jobs may have here; None where the system gives us none."""
    try:
        home = _own_group(root, own)
        if home is None or not os.access(home, os.W_OK) or not _passes_on(home):
            return None
        if home.name == _LEAF and _divided(home.parent):
            return ControlGroups(home.parent)
        _divide(home, os.getpid() if pid is None else pid)
    except OSError as error:
        log.debug("no control groups for jobs: %s", error)
        return None
    return ControlGroups(home)


def _own_group(root: Path, own: Path) -> Path | None:
    lines = [line[3:].strip() for line in own.read_text().splitlines() if line.startswith("0::")]
    # The root of the hierarchy is the machine's; dividing it would move every program on it.
    return root / lines[0].lstrip("/") if lines and lines[0] != "/" else None


def _passes_on(home: Path) -> bool:
    controllers = (home / "cgroup.controllers").read_text().split()
    return all(name in controllers for name in _NEEDED)


def _divided(home: Path) -> bool:
    return all(name in (home / "cgroup.subtree_control").read_text().split() for name in _NEEDED)


def _divide(home: Path, pid: int) -> None:
    inside = {int(line) for line in (home / "cgroup.procs").read_text().split()}
    if inside - {pid}:
        raise OSError(f"{home} holds processes of others")
    leaf = home / _LEAF
    leaf.mkdir(exist_ok=True)
    _write(leaf / "cgroup.procs", str(pid))
    offered = (home / "cgroup.controllers").read_text().split()
    try:
        _pass_on(home, (*_NEEDED, *(name for name in _WELCOME if name in offered)))
    except OSError as error:
        log.debug("jobs are not weighed against others: %s", error)
        _pass_on(home, _NEEDED)


def _pass_on(home: Path, controllers: Sequence[str]) -> None:
    _write(home / "cgroup.subtree_control", " ".join(f"+{name}" for name in controllers))


def _write(file: Path, text: str) -> None:
    # Without creating: a file that the kernel does not offer is an error, not a new file.
    with file.open("r+") as opened:
        opened.write(text)
