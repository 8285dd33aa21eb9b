"""How much memory a job's tree uses and how many processes it has, read cheaply and often."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_PROC = Path("/proc")
_TELLS_CHILDREN = (_PROC / "thread-self/children").exists()


@dataclass(frozen=True)
class TreeUse:
    """What a tree uses at one moment."""

    memory_bytes: int = 0
    processes: int = 0


def read_tree_use(root: int, group: Path | None, limit_bytes: int) -> TreeUse:
    """Return what the tree of process ``root`` uses.

    Where a control group counts, the kernel's figure is taken. Else the private memory of all is added up; only when
    that is above ``limit_bytes`` the exact share of each is asked for, which counts pages that children share once.
    """
    if group is not None:
        counted = _of_group(group)
        if counted is not None:
            return counted
    members = _members(root)
    use = sum(_private(pid) for pid in members) + _in_shared_memory(members)
    if use > limit_bytes:
        use = sum(_share(pid) for pid in members)
    return TreeUse(use, len(members))


def _of_group(group: Path) -> TreeUse | None:
    try:
        memory = int((group / "memory.current").read_text())
        return TreeUse(memory, int((group / "pids.current").read_text()))
    except (OSError, ValueError):
        return None


def _members(root: int) -> list[int]:
    if _TELLS_CHILDREN:
        members = [root]
        for pid in members:  # grows on the way
            members += _children(pid)
        return members
    try:
        process = psutil.Process(root)
        return [root, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error:
        return []


def _children(pid: int) -> list[int]:
    """Return the children of a process as the kernel lists them, without a look at every process of the machine."""
    found: list[int] = []
    # What has just ended, a thread or all of it, has no children; those it had are seen at the next look.
    with suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def _private(pid: int) -> int:
    try:
        # Pages: size, resident, of which shared with files or others.
        _, resident, shared, *_ = (_PROC / str(pid) / "statm").read_text().split()
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _resident(pid)


def _resident(pid: int) -> int:
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0  # it has ended


def _share(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    except (OSError, ValueError, IndexError):
        return _private(pid)


def _in_shared_memory(members: Iterable[int]) -> int:
    """Return what lies in the job's own /dev/shm, which no process of it need have mapped."""
    for pid in members:
        folder = _PROC / str(pid) / "root/dev/shm"
        try:
            if os.stat(folder).st_dev == os.stat("/dev/shm").st_dev:
                return 0  # the machine's own: not this job's alone
            space = os.statvfs(folder)
        except OSError:
            continue
        return (space.f_blocks - space.f_bfree) * space.f_frsize
    return 0
