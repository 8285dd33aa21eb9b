"""The end of an attempt whose run is over, or was never seen: nothing of it is left running, and its end is written."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from worker_core.jobs.recovery import OnLeft, recover_attempt
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, JournalError, NewAttempt
from worker_core.link.backoff import Backoff
from worker_core.machine.paths import Paths
from worker_core.wire.work import Completion

log = logging.getLogger(__name__)

T = TypeVar("T")
_JOURNAL_CAP_S = 4.0


async def insist(write: Callable[[], Awaitable[T]]) -> T:
    """Do what the journal must take, and while it cannot (full disk) try again."""
    backoff = Backoff(_JOURNAL_CAP_S)
    while True:
        try:
            return await write()
        except JournalError as error:
            log.warning("the end of a job waits: %s", error)
            await asyncio.sleep(backoff.next_wait())


async def wind_up(
    held: NewAttempt, killed: asyncio.Event, on_left: OnLeft, *, paths: Paths, journal: Journal
) -> AttemptEnd:
    """Wait for a job that nobody runs any more to leave by itself, or end it at once when ``killed`` is set.

    ``on_left`` is told of processes that resist.
    """

    async def recover(grace_s: float) -> AttemptEnd:
        row = await journal.attempt(held.attempt_id)
        if row is None:
            return AttemptEnd(how="interrupted")  # wiped meanwhile
        return await recover_attempt(row, paths=paths, journal=journal, grace_s=grace_s, on_left=on_left)

    leaving = asyncio.create_task(recover(held.accepted.limits.stop_grace_s))
    hurried = asyncio.create_task(killed.wait())
    try:
        await asyncio.wait({leaving, hurried}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            return leaving.result()
    finally:
        for task in (leaving, hurried):
            task.cancel()
        await asyncio.gather(leaving, hurried, return_exceptions=True)
    return await recover(0)


async def put_canceled(held: NewAttempt, journal: Journal) -> None:
    """Write down that the attempt ends as cancelled."""
    final_seq = journal.next_seq(held.attempt_id)
    canceled = Completion(epoch=held.epoch, outcome="canceled", final_seq=final_seq)
    await journal.put_completion(held.attempt_id, canceled)
