"""Limits where the system sets none for a tree: the core looks at the tree and ends it (macOS, Windows)."""

from dataclasses import dataclass
from pathlib import Path

from worker_core.jobs.sandbox.cell import Cell


@dataclass(frozen=True)
class Bounds:
    """Sets nothing: what is bounded is watched."""

    names: tuple[str, ...] = ("memory", "processes")

    def bind(self, pid: int, cell: Cell) -> Path | None:
        """Leave the process as it is; returns no control group."""
        return None


NO_GROUPS = Bounds()
