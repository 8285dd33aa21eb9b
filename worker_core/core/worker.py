"""The worker at work: feeds what happens to the state machine and does what it says.

This is the one place where the parts meet: the contact with the coordinator, the slot with its job, the deliveries,
the pairing desk, and the faces that watch. Each calls in through its small protocol; nothing here decides on its own.
"""

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from worker_core.control.messages import PairArgs, PairOutcome
from worker_core.core import life as lives
from worker_core.core.correspondence import Correspondence
from worker_core.core.enrollment import Enrollment, Farewell, read_enrollment, read_farewell, write_farewell
from worker_core.core.knowledge import Knowledge
from worker_core.core.life import Action, Decline, Life, advance
from worker_core.core.machine_view import MachineView
from worker_core.core.membership import Membership
from worker_core.core.pairings import OpenPairing, PairingDesk, PairingRefused
from worker_core.core.settings import Settings
from worker_core.core.shown import show
from worker_core.core.slot import Slot
from worker_core.core.version import VERSION
from worker_core.core.wiping import erase, farewell_to, finish_erasing, remove_key
from worker_core.jobs.blobs import blob_path
from worker_core.jobs.runtime import Runtime, find_runtime
from worker_core.jobs.workspace import remove_workspace
from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalError
from worker_core.link.identity import BadCredential, WorkerKey
from worker_core.machine.keystore import Found, Unavailable, open_store
from worker_core.machine.paths import Paths
from worker_core.machine.sources import Sources
from worker_core.wire.events import Metric
from worker_core.wire.status import WorkerStatus
from worker_core.wire.vocabulary import Mode, ReleaseReason

log = logging.getLogger(__name__)

KEYSTORE_RETRY_S = 30.0
_UNPAIR_S = 10.0
_TREE_GONE_S = 30.0
_WIPED_S = 45.0
_DELIVER_BEFORE_LEAVING_S = {"drain": 600.0, "checkpoint": 60.0, "now": 5.0}

LeaveHow = Literal["drain", "checkpoint", "now"]


class Worker:
    """One worker, from the start of its core to the end."""

    def __init__(
        self,
        paths: Paths,
        journal: Journal,
        sources: Sources,
        settings: Settings,
        started_by: str,
        once: bool = False,
        resolve_runtime: Callable[[], Runtime] = find_runtime,
    ) -> None:
        clock = sources.clock
        enrollment, farewell = read_enrollment(journal), read_farewell(journal)
        self._cut_short: Enrollment | None = None
        if farewell is not None:
            self._cut_short, enrollment = enrollment, None
        self.known = Knowledge(
            clock=clock,
            machine=MachineView(sources, paths, settings, resolve_runtime),
            pid=os.getpid(),
            started_by=started_by,
            started_at=clock.now(),
            life=_first_life(enrollment, farewell, journal.local_mode()),
            enrollment=enrollment,
            farewell=farewell,
        )
        self.journal = journal
        self.left = asyncio.Event()
        """Set when this worker has ended all it had to end."""
        self.watchers: list[Callable[[], None]] = []
        self.metric_watchers: list[Callable[[str, Metric], None]] = []
        self._paths = paths
        self._settings = settings
        self._once = once
        self._desk = PairingDesk(paths, journal, sources, VERSION)
        self._slot = Slot(paths, journal, clock, self, resolve_runtime, self.known.machine.devices)
        self._mail = Correspondence(
            self.known, self._slot, journal, self.feed, self.changed, self._delivered, self._link_is_up
        )
        self._membership: Membership | None = None
        self._decision: asyncio.Future[PairOutcome] | None = None
        self._pairing_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._wiping: asyncio.Task[None] | None = None
        self._slot_free = asyncio.Event()
        self._slot_free.set()
        self._leave_how: LeaveHow = "drain"
        self._leave_soon = asyncio.Event()
        self._leaving: asyncio.Task[None] | None = None

    # The state machine and what it orders

    def start(self) -> None:
        """Begin: connect when paired, tidy up what a wipe left when not."""
        if self.known.enrollment is not None:
            self._do("connect")
        else:
            self._wiping = self._start(self._tidy_unpaired())

    def feed(self, event: lives.Event) -> None:
        """Let the state machine see an event and do what it says."""
        before = self.known.life
        self.known.life, actions = advance(before, event)
        if self.known.life.phase != before.phase:
            log.info("now %s, after: %s", self.known.life.phase, _in_words(event))
        if self.known.life.slot == "free":
            self._slot_free.set()
        else:
            self._slot_free.clear()
        for action in actions:
            self._do(action)
        if self.known.life.takes_work and not before.takes_work and self.known.contact is not None:
            self.known.contact.poll_anew()
        self.changed()

    def _do(self, action: Action) -> None:
        offer = self._mail.open_offer
        match action:
            case Decline(reason) if offer is not None:
                self._slot.decline(offer[0], reason)
            case "accept" if offer is not None:
                self._slot.accept(*offer)
            case "connect":
                self._start(self._connect())
            case "spawn":
                self._slot.spawn()
            case "give-back":
                self._slot.give_back()
            case "stop-job":
                self._slot.stop()
            case "cancel-job":
                self._slot.cancel()
            case "kill-job":
                self._slot.kill()
            case "discard-job":
                self._slot.discard()
            case "report" if self.known.contact is not None:
                self.known.contact.report()
            case "wipe":
                self._wiping = self._start(self._wipe())
            case "leave" if self._leaving is None:
                self._leaving = asyncio.create_task(self._leave())
            case _:
                return  # forget-key is done by the desk; a report without contact has nobody to hear it

    # What people ask for, through a face or a signal

    def status(self) -> WorkerStatus:
        """Return everything there is to show."""
        return show(self.known.facts(self._slot.shown(), self.journal.outbox(), self._slot.job_ends))

    async def set_mode(self, mode: Mode, now: bool) -> None:
        """Set the workstation's own mode: on disk first, then obeyed; raises JournalError when it is obeyed only."""
        try:
            await self.journal.set_local_mode(mode)
        finally:  # a full disk keeps nobody from stopping a job
            self.feed(lives.LocalMode(mode, now))

    async def begin_pairing(self, args: PairArgs) -> OpenPairing:
        """Start pairing; raises PairingRefused."""
        if self._wiping is not None:
            await asyncio.wait({self._wiping})
        if self.known.life.standing not in ("unpaired", "revoked"):
            raise PairingRefused("wrong-state", "a pairing is in progress; cancel it first")
        self.feed(lives.PairingBegun())
        try:
            pairing = await self._desk.begin(args)
        except BaseException:
            self.feed(lives.PairingEnded())
            raise
        self.known.pairing = pairing
        self._decision = asyncio.get_running_loop().create_future()
        self._pairing_task = self._start(self._see_pairing_through(pairing, self._decision))
        self.changed()
        return pairing

    def decision(self) -> "asyncio.Future[PairOutcome] | None":
        """The outcome of the pairing in progress, or of the last one."""
        return self._decision

    def cancel_pairing(self) -> None:
        """Call the pairing in progress off."""
        if self._pairing_task is not None:
            self._pairing_task.cancel()

    async def unpair(self) -> bool:
        """End the pairing; True when the coordinator confirmed it. Here everything goes in any case."""
        confirmed = self._membership is not None and await self._membership.unpair(_UNPAIR_S)
        self.feed(lives.Unpaired())
        return confirmed

    def leave(self, how: LeaveHow) -> None:
        """End this process as ``how`` says; asked again, sooner."""
        self._leave_how = how
        if how == "now" and self._leaving is not None:
            self._leave_soon.set()
        self.feed(lives.LeaveAsked(how))

    # What the slot tells (SlotHost)

    def changed(self) -> None:
        """Tell the faces that something is new."""
        for watcher in self.watchers:
            watcher()

    def metric(self, attempt_id: str, metric: Metric) -> None:
        """Pass new points on to the faces."""
        for watcher in self.metric_watchers:
            watcher(attempt_id, metric)

    def link_failed(self, fault: Exception) -> None:
        """A request of the slot failed."""
        self._mail.link_failed(fault)

    def acceptance_uncertain(self) -> None:
        """Connect again, so that the coordinator learns that the attempt is not held."""
        if self.known.contact is not None:
            self.known.contact.reconnect()

    def release_reason(self) -> ReleaseReason:
        """Return why a job that is being stopped is given back."""
        if self.known.life.leaving != "run":
            return "shutdown"
        return "expired" if self.known.life.expired and self.known.life.mode != "stop" else "stopped"

    def job_ended(self, failed_by_us: bool) -> None:
        """Count failures in a row, as evidence of health."""
        self.known.failures_in_a_row = self.known.failures_in_a_row + 1 if failed_by_us else 0
        if self._once:
            self.leave("drain")

    # Membership: from the key to the contact, and the end of it

    async def _connect(self) -> None:
        enrollment = self.known.enrollment
        assert enrollment is not None
        key = await self._load_key(enrollment)
        if key is None:
            return
        locate: Callable[[str], Any] = lambda sha256: blob_path(self._paths.blobs, sha256)  # noqa: E731
        clock = self.known.clock
        member = Membership(enrollment, key, self.journal, locate, clock, self._mail, self._mail)
        self._membership, self.known.contact = member, member.contact
        self._slot.attach(member.client, member.delivery)
        await self._slot.recover(connect=member.contact.start)

    async def _load_key(self, enrollment: Enrollment) -> WorkerKey | None:
        """Return the key, or note why not and try again later: a worker never pairs again by itself."""
        store = open_store(self._paths, enrollment.credential_store)
        found = await asyncio.to_thread(store.load)
        try:
            if isinstance(found, Found):
                key = WorkerKey.from_secret(found.secret)
                self.known.troubles.clear("keystore-locked", "credential-missing")
                return key
            missing = "The credential store has no key of this worker any more. Unpair, then pair again."
        except BadCredential as error:
            missing = f"{error}. Unpair, then pair again."
        if isinstance(found, Unavailable):
            self.known.troubles.set("keystore-locked", found.detail)
        else:
            self.known.troubles.set("credential-missing", missing)
        self.feed(lives.KeystoreRefused())
        self._start(self._retry_keystore())
        return None

    async def _retry_keystore(self) -> None:
        await asyncio.sleep(KEYSTORE_RETRY_S)
        self.feed(lives.KeystoreOpened())

    async def _see_pairing_through(self, pairing: OpenPairing, decision: "asyncio.Future[PairOutcome]") -> None:
        try:
            outcome = await self._desk.await_decision(pairing)
        except asyncio.CancelledError:
            await self._desk.call_off(pairing)
            outcome = PairOutcome(state="canceled", detail="the pairing was called off here")
        self.known.pairing = None
        if outcome.state == "approved":
            self.known.enrollment, self.known.farewell = read_enrollment(self.journal), None
            self.feed(lives.PairingApproved())
        else:
            self.feed(lives.PairingEnded())
        if not decision.done():
            decision.set_result(outcome)

    async def _wipe(self) -> None:
        """Forget everything about a coordinator this worker does not belong to any more."""
        enrollment = self.known.enrollment
        assert enrollment is not None
        farewell = farewell_to(enrollment, self.known.revocation)
        self.known.enrollment, self.known.farewell = None, farewell
        self.known.revocation = self.known.authorization = self.known.contact = None
        self.known.console_seen = False
        self.known.troubles.clear_all()
        self._slot.detach()
        if farewell is not None:
            with contextlib.suppress(JournalError):  # only for the case that the next lines are cut short
                await write_farewell(self.journal, farewell)
        key_left, _ = await asyncio.gather(remove_key(self._paths, enrollment.credential_store), self._end_membership())
        await self._await_free_slot()
        self.known.farewell = await erase(self._paths, self.journal, farewell, key_left)
        log.info("the journal and all workspaces of %s are gone", enrollment.worker_name)
        self.changed()

    async def _tidy_unpaired(self) -> None:
        """Finish a wipe that was cut short."""
        self.known.farewell = await finish_erasing(self._paths, self.journal, self._cut_short, self.known.farewell)
        self.changed()

    async def _await_free_slot(self) -> None:
        try:
            async with asyncio.timeout(_TREE_GONE_S):
                await self._slot_free.wait()
        except TimeoutError:
            log.error("the job's processes are still there; their workspace stays until the next start")

    async def _end_membership(self) -> None:
        member, self._membership = self._membership, None
        if member is not None:
            await member.close()

    async def _leave(self) -> None:
        """Bring home what can be brought home, say goodbye, end; whatever fails at that, end."""
        try:
            await self._take_leave()
        except Exception:
            log.exception("leaving was not orderly")
        finally:
            self.left.set()

    async def _take_leave(self) -> None:
        if self._wiping is not None:
            await asyncio.wait({self._wiping}, timeout=_WIPED_S)
        if self._membership is not None:
            await self._deliver_before_leaving(self._membership)
            await self._membership.goodbye("the worker ends")
        if self._pairing_task is not None:
            self._pairing_task.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._slot.close()
        await self._end_membership()

    async def _deliver_before_leaving(self, member: Membership) -> None:
        patience_s = _DELIVER_BEFORE_LEAVING_S[self._leave_how] if self.known.in_contact() else 0.0
        settled = asyncio.create_task(self._slot.settle(member.delivery, patience_s))
        hurried = asyncio.create_task(self._leave_soon.wait())
        await asyncio.wait({settled, hurried}, return_when=asyncio.FIRST_COMPLETED)
        for task in (settled, hurried):
            task.cancel()
        await asyncio.gather(settled, hurried, return_exceptions=True)

    def _link_is_up(self) -> None:
        if self._membership is not None:
            self._membership.delivery.go_on()

    def _delivered(self, attempt_id: str) -> None:
        self._start(self._remove_workspace(attempt_id))

    async def _remove_workspace(self, attempt_id: str) -> None:
        await remove_workspace(self._paths, attempt_id)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a part of the core failed", exc_info=error)


def _first_life(enrollment: Enrollment | None, farewell: Farewell | None, here: Mode) -> Life:
    if enrollment is not None:
        return Life("starting", here=here)
    return Life("revoked" if farewell is not None else "unpaired", here=here)


def _in_words(event: lives.Event) -> str:
    """Return ``offer granted`` for ``OfferGranted``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(event).__name__).lower()
