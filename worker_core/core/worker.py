"""The worker at work: feeds what happens to the state machine and does what it says.

This is the one place where the parts meet: the contact with the coordinator, the slot with its job, the deliveries,
the pairing desk, and the faces that watch. Each calls in through its small protocol; nothing here decides on its own.
"""

import asyncio
import logging
import os
import re
from collections.abc import Callable

import msgspec

from worker_core.control.messages import PairArgs, PairOutcome
from worker_core.core import life as lives
from worker_core.core.admission import Admission
from worker_core.core.correspondence import Correspondence
from worker_core.core.departure import Departure, LeaveHow
from worker_core.core.enrollment import Enrollment, Farewell, read_enrollment, read_farewell
from worker_core.core.giving_back import GivingBack
from worker_core.core.gpu_care import GpuCare
from worker_core.core.knowledge import Knowledge
from worker_core.core.life import Action, Decline, Life, advance
from worker_core.core.machine_view import MachineView
from worker_core.core.pairings import OpenPairing, PairingDesk
from worker_core.core.rules.duty import OwnerDuty
from worker_core.core.settings import Settings, read_settings, write_settings
from worker_core.core.shown import show
from worker_core.core.slot import Slot
from worker_core.core.tasks import Tasks
from worker_core.core.version import VERSION
from worker_core.jobs.blobs import BlobCache
from worker_core.jobs.runtime import Runtime, find_runtime
from worker_core.jobs.workspace import remove_workspace
from worker_core.journal.journal import Journal
from worker_core.machine.paths import Paths
from worker_core.machine.sources import Sources
from worker_core.wire.events import Metric
from worker_core.wire.owner_rules import OwnerRules
from worker_core.wire.status import WorkerStatus
from worker_core.wire.vocabulary import Mode, ReleaseReason, stricter
from worker_core.wire.work import Limits

log = logging.getLogger(__name__)

_SAME_WAKE_S = 5.0


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
        cut_short, enrollment = (enrollment, None) if farewell is not None else (None, enrollment)
        foreign, enrollment = _foreign(enrollment, sources)
        machine = MachineView(sources, paths, settings, resolve_runtime)
        gpu_care = GpuCare(sources.gpus, journal, clock, resolve_runtime, self._may_take_anew)
        giving_back = GivingBack(journal, clock)
        owner = OwnerDuty(settings.rules, sources.owner, sources.awake, clock, machine.gpus, self._owner_changed)
        self.known = Knowledge(
            clock=clock,
            machine=machine,
            gpu_care=gpu_care,
            giving_back=giving_back,
            owner=owner,
            pid=os.getpid(),
            started_by=started_by,
            started_at=clock.now(),
            life=_first_life(
                enrollment, farewell, journal.local_mode(), stricter(giving_back.mode, owner.verdict.mode)
            ),
            enrollment=enrollment,
            foreign=foreign,
            farewell=farewell,
        )
        machine.safety.on_change = self._may_take_anew
        self.journal = journal
        self.watchers: list[Callable[[], None]] = []
        self.metric_watchers: list[Callable[[str, Metric], None]] = []
        self.slot_free = asyncio.Event()
        self.slot_free.set()
        self._paths = paths
        self._once = once
        self._woke_at = -_SAME_WAKE_S
        self._tasks = Tasks("core")
        self._cache = BlobCache(paths.blobs, journal, settings.keep_blobs_bytes)
        self._slot = Slot(paths, journal, clock, self, resolve_runtime, gpu_care, machine.safety, self._cache)
        self._mail = Correspondence(
            self.known, self._slot, journal, self.feed, self.changed, self._delivered, self._link_is_up
        )
        desk = PairingDesk(paths, journal, sources, VERSION, route=settings.route())
        self.admission = Admission(
            paths, journal, desk, self.known, self._slot, self._mail, self._tasks, self, cut_short
        )
        self._departure = Departure(self.known, self._slot, self.admission, self._tasks, journal)
        self.left = self._departure.over
        """Set when this worker has ended all it had to end."""

    # The state machine and what it orders

    def start(self) -> None:
        """Begin: connect when paired, tidy up what a wipe left when not."""
        self.known.gpu_care.observe(self.known.machine.gpus)
        if self.known.enrollment is not None:
            self.admission.connect()
        elif self.known.foreign is None:
            self.admission.tidy()

    def feed(self, event: lives.Event) -> None:
        """Let the state machine see an event and do what it says."""
        before = self.known.life
        self.known.life, actions = advance(before, event)
        if self.known.life.phase != before.phase:
            log.info("now %s, after: %s", self.known.life.phase, _in_words(event))
        self.known.giving_back.note_slot(free=self.known.life.slot == "free")
        if self.known.life.slot == "free":
            self.slot_free.set()
        else:
            self.slot_free.clear()
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
                self.admission.connect()
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
                self.admission.wipe()
            case "leave":
                self._departure.begin()
            case _:
                return  # forget-key is done by the desk; a report without contact has nobody to hear it

    # What people ask for, through a face or a signal

    def status(self) -> WorkerStatus:
        """Return everything there is to show."""
        return show(self.known.facts(self._slot.shown(), self.journal.outbox(), self._slot.ends))

    async def set_mode(self, mode: Mode, now: bool) -> None:
        """Set the workstation's own mode: on disk first, then obeyed; raises JournalError when it is obeyed only."""
        try:
            await self.journal.set_local_mode(mode)
        finally:  # a full disk keeps nobody from stopping a job
            self.feed(lives.LocalMode(mode, now))
            if mode == "run":  # a person who resumes wants jobs now
                await self.take_again()

    async def give_back(self, until: float | None) -> None:
        """Free the GPU for its owner, until a moment or until they resume; raises JournalError as set_mode does."""
        try:
            await self.known.giving_back.begin(until)
        finally:
            self._owner_changed()

    async def set_rules(self, rules: OwnerRules) -> None:
        """Obey other rules from now on and write them down; raises BadSettings or OSError when they are obeyed only."""
        await self.known.owner.obey(rules)
        await asyncio.to_thread(self._keep_rules, rules)

    def _keep_rules(self, rules: OwnerRules) -> None:
        write_settings(self._paths, msgspec.structs.replace(read_settings(self._paths), rules=rules))

    def _owner_changed(self) -> None:
        """The owner's time with the machine, or a rule of theirs, began or ended."""
        wanted = stricter(self.known.giving_back.mode, self.known.owner.mode)
        if wanted != self.known.life.owner:
            self.feed(lives.OwnerMode(wanted))
        else:
            self.changed()

    async def take_again(self) -> None:
        """The owner's time is over; raises JournalError when a restart would not know."""
        try:
            await self.known.giving_back.end()
        finally:
            self._owner_changed()

    async def begin_pairing(self, args: PairArgs) -> OpenPairing:
        """Start pairing; raises PairingRefused."""
        return await self.admission.begin_pairing(args)

    def decision(self) -> "asyncio.Future[PairOutcome] | None":
        """The outcome of the pairing in progress, or of the last one."""
        return self.admission.decision

    def cancel_pairing(self) -> None:
        """Call the pairing in progress off."""
        self.admission.cancel_pairing()

    async def unpair(self) -> bool:
        """End the pairing; True when the coordinator confirmed it. Here everything goes in any case."""
        confirmed = await self.admission.unpair()
        self.feed(lives.Unpaired())
        return confirmed

    def leave(self, how: LeaveHow) -> None:
        """End this process as ``how`` says; asked again, sooner."""
        self._departure.ask(how)
        self.feed(lives.LeaveAsked(how))

    def order_checkpoint(self) -> Callable[[], bool] | None:
        """Ask a running job for a checkpoint; returns what tells whether it is saved."""
        return self._slot.order_checkpoint()

    def woke(self) -> None:
        """The computer slept: old connections are dead, and the coordinator shall see at once that we are back."""
        contact, now = self.known.contact, self.known.clock.now()
        if now - self._woke_at < _SAME_WAKE_S:
            return  # the system's word and the jump of the clock are two signs of one sleep
        self._woke_at = now
        self.known.gpu_care.woke()
        log.info("the computer slept: old connections are dropped")
        if contact is not None:
            contact.wake()

    def _may_take_anew(self) -> None:
        """What jobs may be taken here has changed: the coordinator shall offer accordingly."""
        if self.known.contact is not None:
            self.known.contact.report()
            self.known.contact.poll_anew()
        self.changed()

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
        if self.known.life.at_risk and self.known.life.mode != "stop":
            return "offline"
        return "expired" if self.known.life.expired and self.known.life.mode != "stop" else "stopped"

    def lease(self) -> tuple[float, Limits] | None:
        """Return the age of the running attempt's lease, and what its job says about losing it."""
        return self._slot.lease()

    def job_ended(self, failed_by_us: bool | None) -> None:
        """Count failures in a row, as evidence of health; a job that did not finish says nothing of it."""
        if failed_by_us is not None:
            self.known.failures_in_a_row = self.known.failures_in_a_row + 1 if failed_by_us else 0
        if self._once:
            self.leave("drain")

    # What the correspondence tells

    def _link_is_up(self) -> None:
        if self.admission.membership is not None:
            self.admission.membership.delivery.go_on()

    def _delivered(self, attempt_id: str) -> None:
        self._tasks.start(self._tidy_after(attempt_id))

    def free_disk(self, size: int) -> None:
        """Let the cache give back what the disk is short of."""
        self._tasks.start(self._cache.give_back(size))

    async def _tidy_after(self, attempt_id: str) -> None:
        """An attempt is delivered: its workspace goes, and what was kept for it counts as cache from now on."""
        await remove_workspace(self._paths, attempt_id)
        await self._cache.sweep()


def _first_life(enrollment: Enrollment | None, farewell: Farewell | None, here: Mode, owner: Mode) -> Life:
    if enrollment is not None:
        return Life("starting", here=here, owner=owner)
    return Life("revoked" if farewell is not None else "unpaired", here=here, owner=owner)


def _foreign(enrollment: Enrollment | None, sources: Sources) -> tuple[Enrollment | None, Enrollment | None]:
    """Part what another computer's home brought along from what is ours."""
    if enrollment is None or not enrollment.is_of_another(sources.computer()):
        return None, enrollment
    log.warning("these files were copied from another computer, worker %s; its key is not used", enrollment.worker_name)
    return enrollment, None


def _in_words(event: lives.Event) -> str:
    """Return ``offer granted`` for ``OfferGranted``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(event).__name__).lower()
