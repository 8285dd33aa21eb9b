"""Work that comes round by the clock, on APScheduler: renewal of the authorization and housekeeping."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from apscheduler.schedulers.asyncio import AsyncIOScheduler

_JITTER_SHARE = 0.1


class Schedule:
    """Recurring work of this core; it must be made inside the running loop."""

    def __init__(self) -> None:
        self._scheduler = cast(Any, AsyncIOScheduler(timezone="UTC"))
        self._scheduler.start()

    def every(self, seconds: float, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do ``work`` about every ``seconds`` (±10 %), never twice at once; a name replaces its older entry."""
        self._scheduler.add_job(
            work,
            "interval",
            seconds=seconds,
            jitter=seconds * _JITTER_SHARE,
            id=name,
            replace_existing=True,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
        )

    def stop(self) -> None:
        """End all recurring work."""
        self._scheduler.shutdown(wait=False)
