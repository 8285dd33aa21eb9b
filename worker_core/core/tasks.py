"""Work in the background whose end somebody sees: a task that fails is logged, and none outlives its owner."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Tasks:
    """The background work of one part of the core."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a piece of work."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    @property
    def under_way(self) -> bool:
        """Whether any of it goes on."""
        return bool(self._tasks)

    async def settle(self, patience_s: float) -> None:
        """Wait for what is under way, at most ``patience_s``."""
        if self._tasks and patience_s:
            await asyncio.wait(tuple(self._tasks), timeout=patience_s)

    async def end(self) -> None:
        """Call everything off and wait until it has ended."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a part of the %s failed", self._owner, exc_info=error)


async def see_through(work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` brings. It cannot be broken off: whoever is cancelled meanwhile waits for its end first."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
