"""What comes round by the clock: watching for sleep and jumps, the end of the authorization, renewal, housekeeping."""

import asyncio
import logging
import math
from dataclasses import dataclass

from worker_core.core import life as lives
from worker_core.core.embedded import LOG_NAME
from worker_core.core.keepsakes import still_kept
from worker_core.core.lease_watch import LeaseView, lease_event
from worker_core.core.logs import bound_log
from worker_core.core.schedule import Schedule
from worker_core.core.settings import Settings
from worker_core.core.storage_view import JOURNAL_REASONS, journal_troubles
from worker_core.core.storage_view import obstacle as find_obstacle
from worker_core.core.tasks import Tasks
from worker_core.core.worker import Worker
from worker_core.jobs.blobs import collect_blobs
from worker_core.jobs.workspace import sweep_workspaces
from worker_core.journal.budget import budget_bytes
from worker_core.journal.records import JournalError
from worker_core.link.faults import LinkFault
from worker_core.machine.clocks import Clock
from worker_core.machine.paths import Paths
from worker_core.wire.problems import ProblemError

log = logging.getLogger(__name__)

_OBSTACLES = ("disk-full", "gpu-silent", "device-missing", "no-containment", "job-stuck")
TICK_S = 1.0
JUMP_S = 5.0
EXPIRED_JOB_MAY_RUN_S = 12 * 3600.0
HOUSEKEEPING_S = 3600.0
KEY_CHECK_S = 3600.0
_REFRESH_WATCHED_S = 5.0
_REFRESH_IDLE_S = 30.0
_WORKING = ("running", "finishing", "stopping")


@dataclass(frozen=True)
class Reading:
    """One look at the three clocks."""

    now: float
    awake: float
    wall: float

    @classmethod
    def take(cls, clock: Clock) -> "Reading":
        return cls(clock.now(), clock.awake(), clock.wall())

    def slept_s(self, before: "Reading") -> float:
        """How long the computer slept since ``before``."""
        return (self.now - before.now) - (self.awake - before.awake)

    def lag_s(self, before: "Reading") -> float:
        """How much later than planned this reading was taken, sleep aside."""
        return max(0.0, self.awake - before.awake - TICK_S)

    def clock_set_s(self, before: "Reading") -> float:
        """By how much somebody set the date since ``before``."""
        return (self.wall - before.wall) - (self.now - before.now)


class Rounds:
    """Recurring work of one core."""

    def __init__(self, worker: Worker, paths: Paths, settings: Settings) -> None:
        self._worker = worker
        self._known = worker.known
        self._paths = paths
        self._settings = settings
        self._schedule: Schedule | None = None
        self._check_s = 0.0
        self._expired_at: float | None = None
        self._woke_at = self._known.clock.awake()
        self._refreshed_at = self._known.clock.now()
        self._looking = Tasks("look at the machine")
        self._returning = Tasks("take jobs again")
        self._set_budget()
        self.watched = False
        """Whether a face looks: then load and devices are read more often."""

    async def tick_for_ever(self) -> None:
        """Look at the clock every second."""
        before = Reading.take(self._known.clock)
        try:
            while True:
                await asyncio.sleep(TICK_S)
                reading = Reading.take(self._known.clock)
                self._mind_clocks(before, reading)
                self._mind_lease(reading)
                self._mind_authorization()
                self._mind_owner()
                self._mind_journal()
                self._mind_polls()
                self._mind_machine(reading)
                self._mind_schedule()
                before = reading
        finally:
            await self._looking.end()
            await self._returning.end()
            await self._known.owner.end()
            if self._schedule is not None:
                self._schedule.stop()
                self._schedule, self._check_s = None, 0.0

    def _mind_clocks(self, before: Reading, reading: Reading) -> None:
        self._known.loop_lag_s = reading.lag_s(before)
        if abs(reading.slept_s(before)) > JUMP_S or reading.lag_s(before) > JUMP_S:
            self._woke_at = reading.awake
        if abs(reading.slept_s(before)) > JUMP_S:
            self._refreshed_at = -math.inf
            self._worker.woke()
        if abs(reading.clock_set_s(before)) > JUMP_S:
            log.info("the date was changed by %.0f s", reading.clock_set_s(before))
            self._check_s = 0.0  # the scheduler plans by date, so its plan is made anew

    def _mind_lease(self, reading: Reading) -> None:
        """Without an answered heartbeat the running job's lease gets old."""
        contact, lease = self._known.contact, self._worker.lease()
        if contact is None or lease is None:
            return
        age_s, limits = lease
        params = contact.connection.params
        view = LeaseView(
            age_s=age_s,
            awake_s=reading.awake - self._woke_at,
            ttl_s=params.lease_ttl_s,
            wake_grace_s=params.stale_s,
            limits=limits,
        )
        self._known.may_run_s = view.may_run_s
        event = lease_event(self._known.life, view)
        if event is not None:
            log.warning("no heartbeat was answered for %.0f s", age_s)
            self._worker.feed(event)

    def _mind_authorization(self) -> None:
        remaining_s = self._known.remaining_s()
        if remaining_s is not None and remaining_s <= 0 and not self._known.life.expired:
            self._worker.feed(lives.AuthorizationSeen(expired=True))
        if not self._known.life.expired:
            self._expired_at = None
        elif self._expired_at is None:
            self._expired_at = self._known.clock.now()
        elif self._known.clock.now() - self._expired_at > EXPIRED_JOB_MAY_RUN_S:
            self._worker.feed(lives.ExpiryGraceOver())

    def _mind_owner(self) -> None:
        """Take jobs again when the owner's time is over."""
        if self._known.giving_back.is_over and not self._returning.under_way:
            self._returning.start(self._take_again())
        self._known.owner.mind(self._known.machine.gpus, runs=self._known.life.slot in _WORKING)

    async def _take_again(self) -> None:
        try:
            await self._worker.take_again()
        except JournalError as error:
            log.warning("that the owner's time is over could not be written down: %s", error)

    def _mind_machine(self, reading: Reading) -> None:
        hurries = self.watched or self._known.owner.rules.max_gpu_c > 0
        due_s = _REFRESH_WATCHED_S if hurries else _REFRESH_IDLE_S
        if self._looking.under_way or reading.now - self._refreshed_at < due_s:
            return
        self._refreshed_at = reading.now
        self._looking.start(self._look_at_machine())

    async def _look_at_machine(self) -> None:
        """Read everything in a thread: a driver that lost its GPU, or a disk of the network, may not answer."""
        await asyncio.to_thread(self._known.machine.refresh)
        bound_log(self._paths.coordinator / LOG_NAME)
        self._known.gpu_care.observe(self._known.machine.gpus)
        self._set_budget()
        troubles, obstacle = self._known.troubles, find_obstacle(self._known.machine, self._worker.journal)
        gone = [reason for reason in _OBSTACLES if obstacle is None or obstacle[0] != reason]
        changed = troubles.clear(*gone)
        if obstacle is not None:
            changed |= troubles.set(*obstacle)
            self._give_back_disk()
        if changed and self._known.contact is not None:
            self._known.contact.report()
        self._worker.changed()

    def _give_back_disk(self) -> None:
        missing = self._settings.min_free_bytes - self._known.machine.disk.free_bytes
        if missing > 0:
            self._worker.free_disk(missing)

    def _set_budget(self) -> None:
        journal = self._worker.journal
        free = self._known.machine.disk.free_bytes
        journal.set_budget(budget_bytes(self._settings.outbox_bytes, free, journal.used_bytes()))

    def _mind_journal(self) -> None:
        """A full, slow or crowded journal is said at once, and so is that it is well again."""
        held, troubles = self._known.troubles, journal_troubles(self._worker.journal)
        changed = held.clear(*(reason for reason in JOURNAL_REASONS if reason not in troubles))
        for reason, text in troubles.items():
            changed |= held.set(reason, text)
        if "disk-full" not in troubles and "disk-full" in held and self._known.machine.obstacle() is None:
            changed |= held.clear("disk-full")
        if changed:
            log.warning("the journal: %s", " ".join(troubles.values()) or "all is well again")
            if self._known.contact is not None:
                self._known.contact.report()
            self._worker.changed()

    def _mind_polls(self) -> None:
        """Heartbeats that pass do not prove that offers can arrive."""
        contact, troubles = self._known.contact, self._known.troubles
        fails, expected = False, self._known.in_contact() and not self._known.life.outdated
        if contact is not None and contact.last_poll is not None and expected:
            fails = self._known.clock.now() - contact.last_poll > 2 * contact.connection.params.poll_wait_s
        text = "Heartbeats arrive, but polls for jobs do not get through."
        changed = troubles.set("not-polling", text) if fails else troubles.clear("not-polling")
        if changed and contact is not None:
            contact.report()
            self._worker.changed()

    def _mind_schedule(self) -> None:
        """Make the plan at the start, and again when the coordinator's intervals or the date change."""
        contact = self._known.contact
        check_s = contact.connection.params.extend_check_s if contact is not None else 3600.0
        if check_s == self._check_s:
            return
        self._check_s = check_s
        if self._schedule is None:
            self._schedule = Schedule()
        self._schedule.every(check_s, "authorization", self.check_authorization)
        self._schedule.every(HOUSEKEEPING_S, "housekeeping", self.housekeep)
        self._schedule.every(KEY_CHECK_S, "key", self.check_key)

    async def check_authorization(self) -> None:
        """Ask for an extension in the last third of the authorization, where a person allowed that."""
        known, remaining_s = self._known, self._known.remaining_s()
        contact = known.contact
        if contact is None or known.authorization is None or remaining_s is None:
            return
        if not known.authorization.extend_while_healthy or known.life.expired:
            return
        if remaining_s < contact.connection.params.extend_below_share * known.authorization_length_s:
            try:
                await contact.extend()
            except (LinkFault, ProblemError) as fault:
                contact.note(fault)

    async def check_key(self) -> None:
        """Change a key that has grown old."""
        rekeying, contact = self._worker.admission.rekeying, self._known.contact
        if rekeying is not None and contact is not None:
            await rekeying.check_age(contact.connection.params.key_max_age_s)

    async def housekeep(self) -> None:
        """Remove old inputs and workspaces that nobody needs."""
        await collect_blobs(self._paths.blobs, self._worker.journal, self._settings.keep_blobs_bytes)
        journal = self._worker.journal
        held = {row.attempt_id for row in await journal.attempts()}
        kept = await still_kept(self._paths, journal, self._known.clock, self._settings.keep_superseded_bytes)
        await sweep_workspaces(self._paths, held | kept)
