"""What the core does when its machine is about to sleep, wakes up, or is about to end.

Before sleep the job is asked for a checkpoint, because nobody knows whether the machine comes back; the system is held
up for that as long as it allows. After sleep every socket is dead. The end of the machine, or of the person's session,
is a TERM that comes with a warning.
"""

import asyncio
import contextlib
import logging

from worker_core.core.tasks import Tasks
from worker_core.core.worker import Worker
from worker_core.machine.power import PowerEvent, PowerSource

log = logging.getLogger(__name__)

PATIENCE_S = 4.5
"""logind waits for 5 s; a checkpoint that takes longer is saved when the machine wakes up."""
_LOOK_EVERY_S = 0.05
_MAX_WAITING = 16


class PowerDuty:
    """Obeys the power events of one core."""

    def __init__(self, worker: Worker, power: PowerSource, patience_s: float = PATIENCE_S) -> None:
        self._worker = worker
        self._power = power
        self._patience_s = patience_s
        self._events: asyncio.Queue[PowerEvent] = asyncio.Queue(_MAX_WAITING)

    async def serve(self) -> None:
        """Listen until cancelled."""
        loop = asyncio.get_running_loop()
        self._power.start(lambda event: loop.call_soon_threadsafe(self._hear, event))
        preparing = Tasks("watch over the computer's power")
        try:
            while True:
                event = await self._events.get()
                await preparing.end()  # what was announced before is over
                match event:
                    case "sleep-coming":
                        preparing.start(self._prepare_for_sleep())
                    case "end-coming":
                        preparing.start(self._prepare_for_end())
                    case "woke":
                        self._worker.woke()
        finally:
            await preparing.end()
            await asyncio.to_thread(self._power.stop)

    def _hear(self, event: PowerEvent) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # a system that says so many things at once says nothing
            self._events.put_nowait(event)

    async def _prepare_for_sleep(self) -> None:
        saved = self._worker.order_checkpoint()
        if saved is not None:
            log.info("the computer is about to sleep: the job is asked for a checkpoint")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    while not saved():  # noqa: ASYNC110 - the job's frames are not an event of ours
                        await asyncio.sleep(_LOOK_EVERY_S)
        self._power.ready()

    async def _prepare_for_end(self) -> None:
        log.info("the computer, or this session, is about to end")
        self._worker.leave("checkpoint")
        await self._worker.left.wait()
        self._power.ready()
