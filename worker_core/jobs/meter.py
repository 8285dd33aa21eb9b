"""Measures what a running job uses: its workspace and its process tree, often where that is cheap."""

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path

from worker_core.jobs.folders import UNMEASURABLE, folder_size
from worker_core.jobs.job import StartedJob
from worker_core.jobs.tree_use import Unnamed
from worker_core.jobs.watch import Use

log = logging.getLogger(__name__)

_DISK_SHARE = 0.02
"""Share of the time that may go into walking through the workspace."""
_DISK_EVERY_S = (1.0, 15.0)
_TREE_EVERY_S, _TREE_NEAR_S = 1.0, 0.2
_NEAR = 0.5
"""Share of the memory limit from which the tree is looked at more often."""


class Meter:
    """The newest readings of one job."""

    def __init__(self, job: StartedJob, workspace: Path) -> None:
        self.use = Use()
        self._job = job
        self._workspace = workspace
        self._unnamed = Unnamed()

    async def run(self) -> None:
        """Measure until cancelled. A job that cannot be measured is not let go on without limits."""
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._measure_disk())
                both.create_task(self._measure_tree())
        except Exception:
            log.exception("what %s uses cannot be measured; it is stopped", self._job.cell.attempt_id)
            self.use = replace(self.use, disk_bytes=UNMEASURABLE)

    async def _measure_disk(self) -> None:
        while True:
            began = time.monotonic()
            size = await asyncio.to_thread(folder_size, self._workspace)
            self._unnamed = await asyncio.to_thread(self._job.unnamed)
            self.use = replace(self.use, disk_bytes=size + self._unnamed.disk_bytes)
            shortest, longest = _DISK_EVERY_S
            await asyncio.sleep(min(longest, max(shortest, (time.monotonic() - began) / _DISK_SHARE)))

    async def _measure_tree(self) -> None:
        near = _NEAR * self._job.cell.memory_bytes
        while True:
            seen = await asyncio.to_thread(self._job.use, self._unnamed.memory_bytes)
            self.use = replace(self.use, memory_bytes=seen.memory_bytes, processes=seen.processes)
            await asyncio.sleep(_TREE_NEAR_S if seen.memory_bytes > near else _TREE_EVERY_S)
