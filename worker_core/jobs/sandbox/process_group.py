"""What every system gives: the job in a session of its own, behind everything else, bounded and ended as one tree.

It keeps a job together, not apart: the job can read what its owner can. Refused unless the owner allows that.
"""

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from worker_core.jobs.sandbox.cell import Cell, ContainedBy, Held
from worker_core.machine.priority import lower_priority

if sys.platform == "linux":
    from worker_core.jobs.sandbox.bounds import NO_GROUPS, Bounds
else:
    from worker_core.jobs.sandbox.watched_bounds import NO_GROUPS, Bounds


@dataclass(frozen=True)
class ProcessGroup:
    """No containment but a session and limits."""

    detail: str = ""
    bounds: Bounds = NO_GROUPS
    by: ContainedBy = "process-group"
    enforces_network: bool = False

    @property
    def limits(self) -> tuple[str, ...]:
        """What is bounded."""
        return self.bounds.names

    @contextmanager
    def launch(self, cell: Cell) -> Generator["ProcessGroupLaunch"]:
        """Nothing has to be prepared."""
        yield ProcessGroupLaunch(cell, self.bounds)


@dataclass
class ProcessGroupLaunch:
    """One start: the command as it is."""

    cell: Cell
    bounds: Bounds
    inherit: tuple[int, ...] = ()

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command itself."""
        return list(command)

    def release(self, process: subprocess.Popen[bytes]) -> Held:
        """Bound the process in its first moments: it is still loading, and alone."""
        lower_priority(process.pid)
        return Held(group=self.bounds.bind(process.pid, self.cell))
