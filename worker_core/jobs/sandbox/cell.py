"""What one job is given, and what every kind of containment does with it: one interface for all systems."""

import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Literal, Protocol

from worker_core.jobs.process import ProcessIdentity
from worker_core.wire.status import ContainmentShown


@dataclass(frozen=True)
class Cell:
    """The bounds of one job."""

    workspace: Path
    attempt_id: str
    devices: tuple[str, ...] | None
    """UUIDs of the GPUs it may use; None on a machine without any, or when the choice is the job's own."""
    network: bool
    memory_bytes: int
    """Most memory that its whole tree may use."""
    processes: int
    """Most processes that its tree may have."""
    readable: tuple[Path, ...] = ()
    """Folders outside the system's own that it may read: its Python, and what the owner names."""


class Launch(Protocol):
    """The start of one job, between the moment its pipes exist and the moment it runs."""

    inherit: tuple[int, ...]
    """File descriptors that the started process keeps, beside those of the job itself."""

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command that starts ``command`` contained."""
        ...

    def release(self, process: subprocess.Popen[bytes]) -> "Held":
        """Set the limits of the process that was just started and let it run; raises OSError when it cannot be."""
        ...


@dataclass(frozen=True)
class Held:
    """What holds a running job."""

    inner: ProcessIdentity | None = None
    """The first process inside its process namespace: with it, the kernel ends all others."""
    group: Path | None = None
    """Its control group, where it has one of its own."""
    codes_from_shell: bool = False
    """Whether an exit code above 128 stands for a signal."""
    status: FileIO | None = None
    """What the sandbox says of itself; it has a reader as long as it runs, or it would die of a broken pipe."""

    def close(self) -> None:
        """Let go of what was held open; the job has ended."""
        if self.status is not None:
            self.status.close()

    def exit_code(self, code: int) -> int:
        """Return the job's exit code; negative is the signal that ended it."""
        shift = 128
        return shift - code if self.codes_from_shell and shift < code <= shift + 64 else code


ContainedBy = Literal["bubblewrap", "sandbox-exec", "job-object", "process-group"]


class Containment(Protocol):
    """How jobs are kept to themselves on this machine."""

    @property
    def by(self) -> ContainedBy: ...

    @property
    def enforces_network(self) -> bool:
        """Whether a job that asks for no network has none."""
        ...

    @property
    def limits(self) -> tuple[str, ...]:
        """What is bounded, in short words: ``memory``, ``processes``."""
        ...

    @property
    def detail(self) -> str:
        """Why there is nothing stronger, and the cure; empty when all is well."""
        ...

    def launch(self, cell: Cell) -> AbstractContextManager[Launch]:
        """Prepare the start of one job."""
        ...


def is_contained(containment: Containment) -> bool:
    """Tell whether jobs are kept from the owner's files; a process group only keeps them together."""
    return containment.by in ("bubblewrap", "sandbox-exec")


def shown(containment: Containment, *, allow_network: bool) -> ContainmentShown:
    """Return what the status says of it."""
    return ContainmentShown(
        by=containment.by,
        network=allow_network or not containment.enforces_network,
        limits=containment.limits,
        detail=containment.detail,
    )
