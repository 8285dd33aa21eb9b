"""Opens the journal at the start of a core, however long the disk has no room for it."""

import asyncio
import logging
from collections.abc import Callable

from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalFull

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 5.0


async def open_when_possible(open_journal: Callable[[], Journal]) -> Journal:
    """Return the journal as soon as its disk is not full; raises JournalError for what waiting does not cure.

    A core that left instead would be started again and again, until its service manager gives up.
    """
    told = False
    while True:
        try:
            return open_journal()
        except JournalFull as error:
            if not told:
                log.warning("%s", error)
                told = True
        await asyncio.sleep(LOOK_AGAIN_S)
