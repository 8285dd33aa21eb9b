"""Gets everything into the file: group commits of events, transactions of others, and the saving of histories."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from worker_core.journal import outbox
from worker_core.journal.budget import Level
from worker_core.journal.database import Database
from worker_core.journal.driver import Connection
from worker_core.journal.histories import History, PackedHistory, save_history
from worker_core.journal.numbering import Batch, Numbering
from worker_core.journal.records import JournalError
from worker_core.journal.start import mark_closed
from worker_core.journal.thinning import Course, Thinned, thin

T = TypeVar("T")
log = logging.getLogger(__name__)

GROUP_COMMIT_S = 0.25
FULL_GROUP_BYTES = 256 * 1024
RETRY_S = 1.0
SAVE_HISTORIES_S = 60.0


class Writer:
    """Decides when what waits is written. Any transaction takes the waiting events along, so that order is kept."""

    def __init__(self, database: Database, numbering: Numbering, held: Mapping[str, History]) -> None:
        self.fault: JournalError | None = None
        """Why nothing can be written now."""
        self._database = database
        self._numbering = numbering
        self._histories = held
        self._unwritten: list[Batch] = []
        """Batches on their way into the file, in order; one whose commit failed goes with the next."""
        self._flush_timer: asyncio.TimerHandle | None = None
        self._save_timer: asyncio.TimerHandle | None = None
        self._flushing = False
        self._thinning: asyncio.Task[None] | None = None
        self._aligning = False
        self._closed = False

    def next_commit(self) -> asyncio.Future[None]:
        """Return the future of the commit that what waits will be in, and see to it that it comes."""
        committed = self._numbering.committed()
        if self._closed:
            return committed
        if self._numbering.pending_bytes >= FULL_GROUP_BYTES and not self.fault:
            self._flush()
        elif self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(GROUP_COMMIT_S, self._flush)
        if self._save_timer is None:
            self._save_timer = asyncio.get_running_loop().call_later(SAVE_HISTORIES_S, self._save_in_background)
        return committed

    @property
    def stalled_s(self) -> float:
        """How long the oldest event that waits for the disk has waited."""
        waiting = self._unwritten or ([self._numbering.pending] if self._numbering.pending else [])
        return max(0.0, time.monotonic() - waiting[0].since - GROUP_COMMIT_S) if waiting else 0.0

    async def write(self, act: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Run ``act`` in a transaction. It goes on to its end even when the caller is cancelled."""
        return await asyncio.shield(self._submit(act, durable))

    async def read(self, act: Callable[[Connection], T]) -> T:
        """Run ``act``, which only reads; it sees all events taken so far, unless the disk takes none."""
        if self.fault:
            return await asyncio.shield(self._database.run(act, durable=False))
        return await self.write(act, durable=False)

    async def save_histories(self) -> None:
        """Save all series that changed, and remove events that were kept only for their sake."""
        await asyncio.shield(self._submit_histories())

    async def realign(self, attempt_id: str, next_seq: int) -> None:
        """Let the numbers of an attempt go on where the coordinator is, after a power cut."""
        # Rows that are numbered meanwhile must not reach the file before their numbers are corrected.
        self._aligning = True
        try:
            from_seq, by = await self.write(lambda connection: outbox.realign(connection, attempt_id, next_seq))
            self._numbering.shift(attempt_id, from_seq, by)
        finally:
            self._aligning = False
            self.next_commit()

    async def close(self) -> None:
        """Write what waits, and that the end was orderly."""
        self._numbering.tell_all_dropped()
        self._closed = True
        if self._thinning is not None:
            self._thinning.cancel()
            await asyncio.gather(self._thinning, return_exceptions=True)
        for timer in (self._flush_timer, self._save_timer):
            if timer:
                timer.cancel()
        await self.save_histories()
        await self.write(mark_closed)

    def _flush(self) -> None:
        if self._flush_timer:
            self._flush_timer.cancel()
            self._flush_timer = None
        if not self._flushing and not self._aligning:
            self._flushing = True
            self._submit(_nothing, False).add_done_callback(self._flushed)

    def _flushed(self, _: asyncio.Future[None]) -> None:
        self._flushing = False
        if self._numbering.pending_bytes and not self.fault:
            self.next_commit()

    def _submit(self, act: Callable[[Connection], T], durable: bool) -> asyncio.Future[T]:
        if not self._aligning and (batch := self._numbering.take()):
            self._unwritten.append(batch)
        written: list[Batch] = []

        def with_waiting_events(connection: Connection) -> T:
            # All that wait, also those of a commit that failed just before: the file never has a later event alone.
            written.extend(self._unwritten)
            for batch in written:
                outbox.insert_events(connection, batch.rows)
            return act(connection)

        def committed() -> None:
            del self._unwritten[: len(written)]

        future = self._database.run(with_waiting_events, durable=durable, committed=committed)
        future.add_done_callback(lambda done: self._settle(written, done))
        return future

    def _settle(self, written: list[Batch], done: asyncio.Future[T]) -> None:
        error = done.exception()
        self.fault = error if isinstance(error, JournalError) else None
        self._numbering.unwritten_bytes = sum(batch.size for batch in self._unwritten)
        if error is None:
            for batch in written:
                batch.settle()
            self._keep_to_budget()
        elif self._unwritten and not self._closed and self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(RETRY_S, self._flush)

    def _keep_to_budget(self) -> None:
        """Thin what waits when it has outgrown its budget."""
        level = self._numbering.budget.level_after(None, self._numbering.used_bytes)
        if level is not None and self._thinning is None and not self._closed:
            self._thinning = asyncio.create_task(self._thin(level), name="thinning of the outbox")
            self._thinning.add_done_callback(self._thinned)

    async def _thin(self, level: Level | None) -> None:
        budget = self._numbering.budget
        while level is not None:
            if level == "metrics":
                await self.save_histories()  # what goes from here stays in the history
            for attempt_id in self._numbering.by_size():
                if budget.wanted(self._numbering.used_bytes) > 0:
                    await self._thin_attempt(Course(attempt_id, level))
            level = budget.level_after(level, self._numbering.used_bytes)
        budget.thinned_to = self._numbering.used_bytes

    async def _thin_attempt(self, course: Course | None) -> None:
        while course is not None:
            wanted = self._numbering.budget.wanted(self._numbering.used_bytes)
            if wanted <= 0:
                return
            act = partial(self._thin_unsent, course=course, wanted=wanted)
            piece: Thinned = await self.write(act, durable=False)
            self._numbering.taken(course.attempt_id, piece.rows, piece.size)
            course = piece.course

    def _thin_unsent(self, connection: Connection, course: Course, wanted: int) -> Thinned:
        return thin(connection, course, wanted, self._numbering.sent_to(course.attempt_id))

    def _thinned(self, task: asyncio.Task[None]) -> None:
        self._thinning = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("the outbox could not be thinned: %s", error)

    def _save_in_background(self) -> None:
        self._save_timer = None
        self._submit_histories()

    def _submit_histories(self) -> asyncio.Future[None]:
        changed = {name: history.take_changed() for name, history in self._histories.items() if history.dirty}
        up_to = {attempt_id: self._numbering.next_seq(attempt_id) for attempt_id in self._histories}

        def act(connection: Connection) -> None:
            # An attempt without metrics too: what it logged and has been delivered would stay for as long as it runs.
            for attempt_id, next_seq in up_to.items():
                save_history(connection, attempt_id, changed.get(attempt_id, []), next_seq)
                outbox.remove_delivered(connection, attempt_id)

        future = self._submit(act, False)
        future.add_done_callback(lambda done: self._keep_unsaved(changed, done))
        return future

    def _keep_unsaved(self, changed: dict[str, PackedHistory], done: asyncio.Future[None]) -> None:
        if done.exception() is not None:
            for attempt_id, packed in changed.items():
                if history := self._histories.get(attempt_id):
                    history.put_back(packed)


def _nothing(_: Connection) -> None:
    return
