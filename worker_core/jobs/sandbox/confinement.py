"""What the owner allows, and what a job therefore gets: the policy, and the bounds of one job made from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from worker_core.jobs.runtime import Runtime
from worker_core.jobs.sandbox.cell import Cell, Containment, is_contained
from worker_core.jobs.sandbox.process_group import ProcessGroup
from worker_core.wire.work import Limits


@dataclass(frozen=True)
class Policy:
    """The owner's rules for jobs; the defaults refuse."""

    allow_uncontained: bool = False
    allow_network: bool = False
    max_memory_share: float = 0.8
    """Of the computer's memory; a job's own limit can only be lower."""
    max_processes: int = 4096
    readable: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Confinement:
    """How jobs are held on this machine, and what they may do."""

    containment: Containment = field(default_factory=ProcessGroup)
    policy: Policy = Policy()

    @property
    def refusal(self) -> str:
        """Why no job is taken, with the cure; empty when jobs may run."""
        if is_contained(self.containment) or self.policy.allow_uncontained:
            return ""
        why = self.containment.detail or "Nothing here keeps a job from the owner's files."
        return f"{why} Or set allow_uncontained in settings.json to let jobs run as any other program of yours."

    def cell(
        self,
        workspace: Path,
        attempt_id: str,
        limits: Limits,
        devices: Sequence[str] | None,
        runtime: Runtime,
    ) -> Cell:
        """Return the bounds of one job."""
        policy = self.policy
        return Cell(
            workspace=workspace,
            attempt_id=attempt_id,
            devices=None if devices is None else tuple(devices),
            network=policy.allow_network and limits.network == "any",
            memory_bytes=most_memory(policy, limits),
            processes=policy.max_processes,
            readable=(*runtime.readable, *policy.readable),
        )


def most_memory(policy: Policy, limits: Limits) -> int:
    """Return how much memory a job's tree may use: its own limit, or the owner's share where that is less."""
    share = int(policy.max_memory_share * psutil.virtual_memory().total)
    return share if limits.max_memory_bytes is None else min(share, limits.max_memory_bytes)
