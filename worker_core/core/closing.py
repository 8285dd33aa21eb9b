"""Attempts that have ended here and are not recorded by the coordinator yet: delivered, cancelled, or given up."""

import asyncio

from worker_core.core.keepsakes import keep
from worker_core.core.tasks import Tasks
from worker_core.core.winding_up import put_canceled
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptRow
from worker_core.link.delivery import Delivery
from worker_core.machine.clocks import Clock
from worker_core.wire.work import LeaseReport


class Closing:
    """What still goes on after the slot is free."""

    def __init__(self, journal: Journal, clock: Clock, tasks: Tasks) -> None:
        self._journal = journal
        self._clock = clock
        self._tasks = tasks
        self._delivery: Delivery | None = None
        self._held: dict[str, tuple[int, int]] = {}
        """Epoch and newest step of each."""
        self._one_at_a_time = asyncio.Lock()
        """For the list of what is kept, which is read and then written."""

    def attach(self, delivery: Delivery) -> None:
        """Deliver through this from now on."""
        self._delivery = delivery

    def clear(self) -> None:
        """The coordinator is none of ours any more, or this process ends."""
        self._delivery = None
        self._held.clear()

    def __contains__(self, attempt_id: str) -> bool:
        return attempt_id in self._held

    def leases(self) -> tuple[LeaseReport, ...]:
        """Return what the coordinator should know of each: it is still held."""
        return tuple(
            LeaseReport(attempt_id=attempt_id, epoch=epoch, phase="uploading", step=step, pct=100.0)
            for attempt_id, (epoch, step) in self._held.items()
        )

    def begin(self, row: AttemptRow) -> None:
        """Deliver what the journal holds of an attempt, and will hold; one that has ended is on its way out."""
        if row.end is not None:
            self._held[row.attempt_id] = (row.epoch, row.checkpoint.step if row.checkpoint else 0)
        if self._delivery is not None:
            self._delivery.begin(row)

    async def begin_delivery_of(self, attempt_id: str) -> None:
        """Deliver the events of an attempt that begins to run."""
        row = await self._journal.attempt(attempt_id)
        if row is not None and self._delivery is not None:
            self._delivery.begin(row)

    def conclude(self, attempt_id: str, epoch: int, step: int) -> None:
        """The attempt has left the slot and its end is in the journal."""
        self._held[attempt_id] = (epoch, step)
        if self._delivery is not None:
            self._delivery.conclude(attempt_id)

    def abandon(self, attempt_id: str) -> None:
        """Drop what waits of an attempt that the coordinator gave to another."""
        if attempt_id in self._held:
            self._tasks.start(self.discard(attempt_id))

    def cancel(self, attempt_id: str) -> None:
        """An attempt that is being given back is cancelled instead."""
        if attempt_id in self._held:
            self._tasks.start(self._cancel(attempt_id))

    async def forget(self, attempt_id: str) -> None:
        """Remove an attempt that is delivered."""
        self._held.pop(attempt_id, None)
        await self._journal.forget_attempt(attempt_id)

    async def set_aside(self, attempt_id: str) -> None:
        """Remove an attempt that lost its job to another, after its delivery; its workspace stays for a while."""
        async with self._one_at_a_time:
            await keep(self._journal, self._clock, attempt_id)
        await self.forget(attempt_id)

    async def discard(self, attempt_id: str) -> None:
        """Break the delivery of an attempt off and set it aside; without a coordinator nothing of it stays."""
        if self._delivery is None:
            await self.forget(attempt_id)
            return
        self._delivery.drop(attempt_id)
        await self.set_aside(attempt_id)

    async def settle(self, delivery: Delivery, patience_s: float) -> None:
        """Wait until everything is delivered, at most ``patience_s``."""
        waits = [delivery.settled(attempt_id, patience_s) for attempt_id in self._held]
        await asyncio.gather(*waits)

    async def _cancel(self, attempt_id: str) -> None:
        row = await self._journal.attempt(attempt_id)
        if row is None or row.end is None or row.end.how == "finished" or self._delivery is None:
            return
        said = await self._journal.completion(attempt_id)
        if said is not None and said.outcome == "canceled":
            return  # on its way already; each heartbeat says it again until it has arrived
        self._delivery.drop(attempt_id)
        await put_canceled(row, self._journal)
        self._delivery.begin(row)
