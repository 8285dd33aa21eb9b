"""Work that comes round at an interval for as long as the coordinator runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


async def every(seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    """Do ``act`` again and again; a round that fails is logged, because the next may succeed."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await act()
        except Exception:
            log.exception("%s failed; it is tried again in %g s", getattr(act, "__qualname__", "a round"), seconds)
