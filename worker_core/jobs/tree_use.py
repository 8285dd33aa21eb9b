"""How much memory a job's tree uses and how many processes it has, read cheaply and often."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

_PROC = Path("/proc")
_BLOCK_BYTES = 512
_IN_MEMORY = ("dev/shm", "tmp")
_TELLS_CHILDREN = (_PROC / "thread-self/children").exists()


@dataclass(frozen=True)
class TreeUse:
    """What a tree uses at one moment."""

    memory_bytes: int = 0
    processes: int = 0
    members: tuple[int, ...] = ()
    """The processes themselves, where the kernel does not hold them together."""


@dataclass(frozen=True)
class Unnamed:
    """Bytes in files that a tree holds open and that no folder shows: removed ones, and those made without a name."""

    disk_bytes: int = 0
    memory_bytes: int = 0


def read_tree_use(root: int, group: Path | None, limit_bytes: int, unnamed_bytes: int = 0) -> TreeUse:
    """Return what the tree of process ``root`` uses; ``unnamed_bytes`` of it are in files of :class:`Unnamed`.

    Where a control group counts, the kernel's figure is taken. Else the memory of all that no file stands behind is
    added up; only when that is above ``limit_bytes`` the exact share of each is asked for, which counts pages that
    children share once.
    """
    if group is not None:
        counted = _of_group(group)
        if counted is not None:
            return counted
    members = _members(root)
    in_files = _in_own_folders(members) + unnamed_bytes
    use = sum(sum(_held(pid)) for pid in members) + in_files
    if use > limit_bytes:
        shares = [_share(pid) for pid in members]
        # What is mapped of files in memory stands in both figures.
        use = sum(own for own, _ in shares) + max(in_files, sum(shared for _, shared in shares))
    return TreeUse(use, len(members), tuple(members))


def read_unnamed(root: int, disk: int) -> Unnamed:
    """Return what the tree holds in files without a name; ``disk`` is the device of its workspace."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in _members(root):
        for found in _opened(pid):
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK_BYTES
    by_device = {device: 0 for device, _ in sizes}
    for (device, _), size in sizes.items():
        by_device[device] += size
    return Unnamed(by_device.get(disk, 0), by_device.get(_memory_device(), 0))


@cache
def _memory_device() -> int:
    """Return the device on which the system keeps files that live in memory and never had a name."""
    if sys.platform != "linux":
        return -1
    descriptor = os.memfd_create("device")
    try:
        return os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)


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


def _held(pid: int) -> tuple[int, int]:
    """Return the bytes of a process in memory of its own and in memory that it may share, without those of files."""
    try:
        sizes = _kibibytes(_PROC / str(pid) / "status")
        return sizes["RssAnon"], sizes["RssShmem"]
    except (OSError, ValueError, KeyError):
        return _resident(pid), 0


def _resident(pid: int) -> int:
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0  # it has ended


def _share(pid: int) -> tuple[int, int]:
    """Return the same with each shared page divided among those that share it."""
    try:
        sizes = _kibibytes(_PROC / str(pid) / "smaps_rollup")
        return sizes["Pss_Anon"], sizes["Pss_Shmem"]
    except (OSError, ValueError, KeyError):
        return _held(pid)


def _kibibytes(file: Path) -> dict[str, int]:
    """Return the lines ``Name:  123 kB`` of a file, in bytes."""
    lines = (line.split() for line in file.read_text().splitlines() if line.endswith(" kB"))
    return {name.rstrip(":"): int(size) << 10 for name, size, _ in lines}


def _opened(pid: int) -> Iterator[os.stat_result]:
    with suppress(OSError):
        for name in os.listdir(_PROC / str(pid) / "fd"):
            with suppress(OSError):
                yield os.stat(_PROC / str(pid) / "fd" / name)


def _in_own_folders(members: Iterable[int]) -> int:
    """Return what lies in the job's own folders in memory; no process of it need have it mapped."""
    for pid in members:
        try:
            return sum(_filled(_PROC / str(pid) / "root", folder) for folder in _IN_MEMORY)
        except OSError:
            continue  # it has ended
    return 0


def _filled(root: Path, folder: str) -> int:
    there = root / folder
    if os.stat(there).st_dev == os.stat(Path("/", folder)).st_dev:
        return 0  # the machine's own: not this job's alone
    space = os.statvfs(there)
    return (space.f_blocks - space.f_bfree) * space.f_frsize
