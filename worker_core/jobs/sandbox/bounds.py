"""The limits of a job's tree on Linux: by a control group of its own where we may make one, else by what a process has.

Memory and the number of processes are bounded in any case: where the kernel does not count them for the whole tree,
the core looks (:mod:`worker_core.jobs.tree_use`) and ends the tree.
"""

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from worker_core.jobs.sandbox.cell import Cell
from worker_core.jobs.sandbox.control_groups import ControlGroups

if sys.platform == "linux":
    import resource

log = logging.getLogger(__name__)

_VICTIM = 800
"""Of 1000: with this, a job is the first that the kernel ends when memory runs out, and the core is not."""
_TASKS = Path("/proc/loadavg")


@dataclass(frozen=True)
class Bounds:
    """Sets the limits of a process that does not run yet; what it starts inherits them."""

    groups: ControlGroups | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What is bounded."""
        return ("memory", "processes")

    def bind(self, pid: int, cell: Cell) -> Path | None:
        """Bound a process; returns its control group, where it has one of its own."""
        raise_victim(pid)
        group = self.groups.make(cell.attempt_id, cell.memory_bytes, cell.processes) if self.groups else None
        if group is not None and self.groups is not None:
            self.groups.enter(group, pid)
        _limit(pid, cell)
        return group


NO_GROUPS = Bounds()


def raise_victim(pid: int) -> None:
    """Make a process the first that is ended when memory runs out, where it is not yet."""
    file = Path(f"/proc/{pid}/oom_score_adj")
    try:
        if int(file.read_text()) < _VICTIM:
            file.write_text(str(_VICTIM))
    except (OSError, ValueError) as error:
        log.debug("process %d keeps its place among those ended for want of memory: %s", pid, error)


def _limit(pid: int, cell: Cell) -> None:
    if sys.platform != "linux":
        return
    limits = {resource.RLIMIT_CORE: 0}
    if cell.devices is None:
        # The driver of a GPU reserves far more than it uses, so only a job without one is bounded by what it maps.
        limits[resource.RLIMIT_DATA] = cell.memory_bytes
    if os.getuid() != 0:
        limits[resource.RLIMIT_NPROC] = _tasks_now() + cell.processes
    for name, value in limits.items():
        try:
            _, hard = resource.prlimit(pid, name)
            lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, name, (lowest, lowest))
        except (OSError, ValueError) as error:
            log.warning("a limit of process %d cannot be set: %s", pid, error)


def _tasks_now() -> int:
    """Return how many tasks the machine has: the limit counts all of a person, so those of now are added to it."""
    try:
        return int(_TASKS.read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0
