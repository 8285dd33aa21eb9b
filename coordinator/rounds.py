"""Work that comes round at an interval for as long as the coordinator runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from coordinator.storage.full_disk import is_disk_full

log = logging.getLogger(__name__)


async def every(seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    """Do ``act`` again and again; a round that fails is logged, because the next may succeed.

    A full disk is said once until a round passes: lines about it would go to the same disk.
    """
    name = getattr(act, "__qualname__", "a round")
    told_full = False
    while True:
        await asyncio.sleep(seconds)
        try:
            await act()
        except Exception as error:
            if not is_disk_full(error):
                log.exception("%s failed; it is tried again in %g s", name, seconds)
            elif not told_full:
                log.error("%s waits for room on the disk: %s", name, getattr(error, "orig", error))
                told_full = True
        else:
            told_full = False
