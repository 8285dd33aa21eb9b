"""How this process ends: what can be brought home is, the coordinator hears a goodbye, and nothing stays behind."""

import asyncio
import logging
from typing import Literal

from worker_core.core.admission import Admission
from worker_core.core.knowledge import Knowledge
from worker_core.core.membership import Membership
from worker_core.core.slot import Slot
from worker_core.core.tasks import Tasks
from worker_core.journal.journal import Journal

log = logging.getLogger(__name__)

_WIPED_S = 45.0
LeaveHow = Literal["drain", "checkpoint", "now"]
_DELIVER_BEFORE_LEAVING_S: dict[LeaveHow, float] = {"drain": 600.0, "checkpoint": 60.0, "now": 5.0}
_ONCE_HURRIED_S: dict[LeaveHow, float] = {"drain": 600.0, "checkpoint": 60.0, "now": 0.0}
_GIVE_UP_SILENT_S = 20.0
"""Somewhat longer than heartbeats lie apart: without a word for so long, nothing more will be delivered soon."""
_LOOK_S = 1.0
_TREE_GONE_S = 25.0
"""After its grace, a job's tree is surely gone: it is killed then."""
_ORDER: tuple[LeaveHow, ...] = ("drain", "checkpoint", "now")


class Departure:
    """The end of one core, asked for once and perhaps hurried."""

    def __init__(self, known: Knowledge, slot: Slot, admission: Admission, tasks: Tasks, journal: Journal) -> None:
        self.over = asyncio.Event()
        """Set when this worker has ended all it had to end."""
        self._known = known
        self._slot = slot
        self._admission = admission
        self._tasks = tasks
        self._journal = journal
        self._how: LeaveHow = "drain"
        self._sooner = asyncio.Event()
        self._leaving: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None

    def ask(self, how: LeaveHow) -> None:
        """Note how this process shall end; asked again, sooner, and never later."""
        before, self._how = self._how, _ORDER[max(_ORDER.index(self._how), _ORDER.index(how))]
        if self._how != before:
            self._sooner.set()
        if self._how != "drain" and self._guard is None:
            self._guard = asyncio.create_task(self._leave_a_full_disk())

    def begin(self) -> None:
        """The slot is free: go, in the background."""
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._leave())

    async def _leave_a_full_disk(self) -> None:
        """Go without the last words of a job that the disk does not take; the next start winds the attempt up."""
        await asyncio.sleep(self._slot.stop_grace_s + _TREE_GONE_S)
        while self._leaving is None and not self._journal.fault:  # noqa: ASYNC110 - neither is an event
            await asyncio.sleep(_LOOK_S)
        if self._leaving is None:
            log.warning("the end of the job cannot be written down; the next start does that. %s", self._journal.fault)
            self.begin()

    async def _leave(self) -> None:
        """Bring home what can be brought home, say goodbye, end; whatever fails at that, end."""
        try:
            await self._take_leave()
        except Exception:
            log.exception("leaving was not orderly")
        finally:
            if self._guard is not None:
                self._guard.cancel()
            self.over.set()

    async def _take_leave(self) -> None:
        if self._admission.wiping is not None:
            await asyncio.wait({self._admission.wiping}, timeout=_WIPED_S)
        member = self._admission.membership
        if member is not None:
            await self._deliver_before_leaving(member)
            await member.goodbye("the worker ends")
        self._admission.cancel_pairing()
        await self._tasks.end()
        await self._slot.close()
        await self._known.gpu_care.close()
        await self._admission.end_membership()

    async def _deliver_before_leaving(self, member: Membership) -> None:
        patience_s = _DELIVER_BEFORE_LEAVING_S[self._how] if self._known.in_contact() else 0.0
        settled = asyncio.create_task(self._slot.settle(member.delivery, patience_s))
        while await self._is_hurried(settled, patience_s):
            patience_s = _ONCE_HURRIED_S[self._how]
        settled.cancel()
        await asyncio.gather(settled, return_exceptions=True)

    async def _is_hurried(self, settled: asyncio.Task[None], patience_s: float) -> bool:
        """Wait for the deliveries, at most ``patience_s``; True when sooner is asked for meanwhile.

        What is left here goes on with the next start.
        """
        self._sooner.clear()
        sooner = asyncio.create_task(self._sooner.wait())
        until = asyncio.get_running_loop().time() + patience_s
        try:
            while not settled.done() and not sooner.done():
                left_s = until - asyncio.get_running_loop().time()
                if left_s <= 0 or self._is_in_vain():
                    break
                await asyncio.wait({settled, sooner}, timeout=min(_LOOK_S, left_s), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sooner.cancel()
        return sooner.done() and not settled.done()

    def _is_in_vain(self) -> bool:
        """Whether a machine that goes down waits for a coordinator that says nothing, or a disk that takes nothing."""
        stuck = bool(self._journal.fault) or self._known.contact_age_s() > _GIVE_UP_SILENT_S
        return self._how == "checkpoint" and stuck
