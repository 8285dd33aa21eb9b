"""The one slot: takes an offered job, runs it, ends it, and hands what is left to the delivery.

The slot is free as soon as the job's process tree is gone; events, files and the word how it ended go on in the
background. What shall become of an attempt is in the journal before anything is told to the coordinator.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Literal, Protocol, get_args

from worker_core.core.acceptance import Refusal, accept_offer, decline_offer
from worker_core.core.closing import Closing
from worker_core.core.gpu_care import Assigned, GpuCare, NoGpu
from worker_core.core.gpu_needs import gpu_need
from worker_core.core.inputs import fetch_from
from worker_core.core.job_safety import JobSafety
from worker_core.core.life import Event, HeldFound, JobExited, JobGone, OfferGone, OfferGranted
from worker_core.core.recent_ends import RecentEnds
from worker_core.core.reports import job_shown, lease_report
from worker_core.core.tasks import Tasks
from worker_core.core.winding_up import insist, put_canceled, wind_up
from worker_core.jobs.attempt import AttemptRun
from worker_core.jobs.blobs import BlobCache
from worker_core.jobs.process import ProcessIdentity
from worker_core.jobs.runtime import Runtime, RuntimeMissing
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, JournalError, NewAttempt
from worker_core.link.client import CoordinatorClient
from worker_core.link.delivery import Delivery
from worker_core.link.faults import TransportFault
from worker_core.machine.clocks import Clock
from worker_core.machine.paths import Paths
from worker_core.wire.events import Metric
from worker_core.wire.failure_rules import RETRYABLE_FAILURES
from worker_core.wire.frames import JobError
from worker_core.wire.signed import Offer
from worker_core.wire.status import JobShown
from worker_core.wire.vocabulary import ReleaseReason
from worker_core.wire.work import LeaseReport, Limits, Release

log = logging.getLogger(__name__)


Fate = Literal["deliver", "cancel", "discard"]
"""What becomes of an attempt whose tree is gone."""


class SlotHost(Protocol):
    """The core, as its slot sees it."""

    def feed(self, event: Event) -> None: ...

    def changed(self) -> None:
        """The job moved on."""
        ...

    def metric(self, attempt_id: str, metric: Metric) -> None: ...

    def link_failed(self, fault: Exception) -> None: ...

    def acceptance_uncertain(self) -> None:
        """The coordinator may believe that we hold an attempt that we do not."""
        ...

    def release_reason(self) -> ReleaseReason:
        """Why a job that is being stopped is given back."""
        ...

    def job_ended(self, failed_by_us: bool | None) -> None:
        """A job's tree is gone; ``failed_by_us`` when this machine is the likely cause, None when it did not finish."""
        ...


class Slot:
    """Runs one attempt at a time."""

    def __init__(
        self,
        paths: Paths,
        journal: Journal,
        clock: Clock,
        host: SlotHost,
        resolve_runtime: Callable[[], Runtime],
        gpus: GpuCare,
        safety: JobSafety,
        cache: BlobCache,
    ) -> None:
        self._cache = cache
        self.ends = RecentEnds()
        self._paths = paths
        self._journal = journal
        self._clock = clock
        self._host = host
        self._resolve_runtime = resolve_runtime
        self._gpus = gpus
        self._safety = safety
        self._client: CoordinatorClient | None = None
        self._offer: tuple[Offer, str] | None = None
        self._row: NewAttempt | None = None
        self._run: AttemptRun | None = None
        self._fate: Fate = "deliver"
        self._ordered: Literal["stop", "kill"] | None = None
        self._killed = asyncio.Event()
        self._lease_at = 0.0
        self._answering: asyncio.Task[None] | None = None
        self._tasks = Tasks("slot")
        self.closing = Closing(journal, clock, self._tasks)
        """Attempts that have left the slot and are not recorded yet."""

    def attach(self, client: CoordinatorClient, delivery: Delivery) -> None:
        """Work for this coordinator from now on."""
        self._client = client
        self.closing.attach(delivery)

    def detach(self) -> None:
        """The coordinator is none of ours any more: an offer that is being accepted comes to nothing."""
        self._client = self._offer = None
        if self._answering is not None:
            self._answering.cancel()
        self.closing.clear()

    # What the core asks for

    def knows(self, attempt_id: str) -> bool:
        """Whether this attempt is at work here already."""
        offered = self._offer is not None and self._offer[0].attempt_id == attempt_id
        running = self._row is not None and self._row.attempt_id == attempt_id
        return offered or running or attempt_id in self.closing

    def runs(self, attempt_id: str) -> bool:
        """Whether this attempt is in the slot."""
        return self._row is not None and self._row.attempt_id == attempt_id

    @property
    def stop_grace_s(self) -> float:
        """How long the job in the slot may take to stop; 0 without one."""
        return self._row.accepted.limits.stop_grace_s if self._row is not None else 0.0

    def accept(self, offer: Offer, jws: str) -> None:
        """W2, in the background."""
        self._offer = (offer, jws)
        self._lease_at = self._clock.now()
        self._answering = self._tasks.start(self._accept(offer, jws))

    def decline(self, offer: Offer, reason: str) -> None:
        """W3, in the background."""
        self._tasks.start(self._decline(offer, reason))

    def spawn(self) -> None:
        """Start the granted job."""
        self._tasks.start(self._run_job())

    def give_back(self) -> None:
        """Release the granted attempt without starting it."""
        self._tasks.start(self._give_back())

    def stop(self) -> None:
        """Order a checkpoint and end the job after its grace."""
        self._order("stop")

    def kill(self) -> None:
        """End the tree now; the last checkpoint counts."""
        self._order("kill")

    def order_checkpoint(self) -> Callable[[], bool] | None:
        """Ask the running job for a checkpoint; returns what tells whether it is saved, None where no job runs."""
        run, asked_at = self._run, self._clock.now()
        if run is None:
            return None
        run.checkpoint_now()

        def saved() -> bool:
            age_s = run.progress.checkpoint_age_s
            return self._run is not run or (age_s is not None and age_s < self._clock.now() - asked_at)

        return saved

    def cancel(self) -> None:
        """End a cancelled job."""
        self._fate = "cancel"
        self.stop()

    def discard(self) -> None:
        """End the tree now; nothing of it counts any more."""
        self._fate = "discard"
        self.kill()

    def confirm_lease(self, sent_at: float) -> None:
        """The coordinator confirmed the running attempt's lease in its answer to what was sent then."""
        self._lease_at = max(self._lease_at, sent_at)

    def lease(self) -> tuple[float, Limits] | None:
        """Return the age of the running attempt's lease, and what its job says about losing it."""
        if self._row is None:
            return None
        return self._clock.now() - self._lease_at, self._row.accepted.limits

    def leases(self) -> tuple[LeaseReport, ...]:
        """Return what the coordinator should know of every attempt held here."""
        if self._row is None:
            return self.closing.leases()
        running = lease_report(self._row, self._run.progress if self._run is not None else None)
        return (running, *self.closing.leases())

    def shown(self) -> JobShown | None:
        """Return the job in the slot, as a person sees it."""
        if self._row is None:
            return None
        return job_shown(self._row, self._run.progress if self._run is not None else None)

    async def recover(self, connect: Callable[[], None]) -> None:
        """Wind up what an earlier run of this core left: wait for its job or end it, then deliver.

        The slot is taken before ``connect`` lets the coordinator offer anything.
        """
        rows = await self._journal.attempts()
        unended = [row for row in rows if row.end is None]
        if unended:
            self._hold(unended[0])
            self._host.feed(HeldFound())
        connect()
        for row in rows:
            if row.end is not None:
                await insist(lambda row=row, end=row.end: self._put_word(row, end))
            self.closing.begin(row)
        for row in unended:
            self._row = row
            end = await insist(lambda row=row: self._wind_up(row))
            log.info("the attempt %s of an earlier run ended: %s", row.attempt_id, end.how)
            await self._conclude(row, end)
        if unended:
            self._host.feed(JobGone())

    async def settle(self, delivery: Delivery, patience_s: float) -> None:
        """Wait until everything of ended attempts is delivered, at most ``patience_s``."""
        await self._tasks.settle(patience_s)  # one may be giving a job back just now
        await self.closing.settle(delivery, patience_s)

    async def close(self) -> None:
        """End what still runs in the background."""
        await self._tasks.end()
        self._offer = self._row = self._run = None
        self.closing.clear()

    def _order(self, what: Literal["stop", "kill"]) -> None:
        """Pass an order to the job, or keep it for a job that is just being started."""
        self._ordered = what
        if what == "kill":
            self._killed.set()
        if self._run is not None:
            self._run.stop() if what == "stop" else self._run.kill()

    # One attempt, from offer to end

    async def _accept(self, offer: Offer, jws: str) -> None:
        row = await self._take(offer, jws)
        self._offer = None
        if row is None:
            self._host.feed(OfferGone())
        else:
            self._hold(row)
            self._host.feed(OfferGranted())

    async def _take(self, offer: Offer, jws: str) -> NewAttempt | None:
        assert self._client is not None
        try:
            return await accept_offer(self._client, self._journal, offer, jws)
        except get_args(Refusal) as fault:
            log.warning("the offer of job %s was not taken: %s", offer.job_id, fault)
            self._host.link_failed(fault)
            if isinstance(fault, TransportFault):
                self._host.acceptance_uncertain()
        except JournalError as error:  # the status says so too, until there is room again
            log.warning("the offer of job %s could not be written down: %s", offer.job_id, error)
            self._host.acceptance_uncertain()
        except Exception as error:
            log.exception("the offer of job %s could not be written down: %s", offer.job_id, error)
            self._host.acceptance_uncertain()
        return None

    def _hold(self, row: NewAttempt) -> None:
        self._row, self._run, self._fate, self._ordered = row, None, "deliver", None
        self._killed.clear()

    async def _decline(self, offer: Offer, reason: str) -> None:
        assert self._client is not None
        try:
            await decline_offer(self._client, offer, reason)
        except get_args(Refusal) as fault:
            self._host.link_failed(fault)  # an offer that is not declined lapses by itself

    async def _run_job(self) -> None:
        row = self._row
        assert row is not None
        try:
            end = await self._run_to_end(row)
        except Exception:
            log.exception("the run of job %s failed; what is left of it is wound up", row.job_id)
            end = await insist(lambda: self._wind_up(row))
        log.info("job %s attempt %d ended: %s", row.job_id, row.ordinal, end.outcome or end.how)
        await self._conclude(row, end)
        self._host.feed(JobGone())

    async def _run_to_end(self, row: NewAttempt) -> AttemptEnd:
        await self.closing.begin_delivery_of(row.attempt_id)
        try:
            runtime = self._resolve_runtime()
            assigned = await self._gpus.assign(gpu_need(row.accepted.spec), self._killed)
        except (RuntimeMissing, NoGpu) as error:
            failed = error.error if isinstance(error, NoGpu) else JobError(failure="start-failed", message=str(error))
            end = AttemptEnd(how="finished", outcome="failed", error=failed)
            await insist(lambda: self._journal.set_end(row.attempt_id, end))
            return end
        self._run = self._make_run(row, runtime, assigned)
        if self._ordered is not None:
            self._order(self._ordered)
        try:
            return await self._gpus.lend(assigned, self._run.run())
        finally:
            self._see_gone(row.attempt_id, self._run.identity, self._run.left)

    async def _wind_up(self, row: NewAttempt) -> AttemptEnd:
        return await wind_up(row, self._killed, self._see_gone, paths=self._paths, journal=self._journal)

    def _see_gone(self, attempt_id: str, identity: ProcessIdentity | None, left: tuple[int, ...]) -> None:
        if left:
            self._tasks.start(self._safety.see_gone(identity, attempt_id, left))

    def _make_run(self, row: NewAttempt, runtime: Runtime, assigned: Assigned) -> AttemptRun:
        assert self._client is not None
        return AttemptRun(
            row,
            paths=self._paths,
            journal=self._journal,
            runtime=runtime,
            fetch=fetch_from(self._client, row.attempt_id, self._cache),
            clock=self._clock,
            on_change=self._job_moved,
            on_metric=lambda metric: self._host.metric(row.attempt_id, metric),
            devices=assigned.uuids,
            confinement=self._safety.confinement,
        )

    def _job_moved(self) -> None:
        if self._run is not None and self._run.progress.phase in ("finishing", "uploading"):
            self._host.feed(JobExited())
        self._host.changed()

    async def _give_back(self) -> None:
        row = self._row
        assert row is not None
        end = AttemptEnd(how="stopped", note="given back before it was started")
        # An ended attempt is delivered at once, so what is to be said of it must be written before that.
        await self.closing.begin_delivery_of(row.attempt_id)
        await insist(lambda: self._journal.set_end(row.attempt_id, end))
        await self._conclude(row, end)

    async def _conclude(self, row: NewAttempt, end: AttemptEnd) -> None:
        """Write down what becomes of the attempt and free the slot."""
        fate, attempt_id = self._fate, row.attempt_id
        await insist(lambda: self._put_fate(row, end))
        step = self._run.progress.step if self._run is not None else lease_report(row, None).step
        if self._row is row:
            self._row = self._run = None
        self.ends.note(row, end, fate)
        failed_by_us = end.error is not None and end.error.failure in RETRYABLE_FAILURES
        self._host.job_ended(failed_by_us if end.how == "finished" else None)
        if fate == "discard":
            await insist(lambda: self.closing.discard(attempt_id))
        else:
            self.closing.conclude(attempt_id, row.epoch, step)

    async def _put_fate(self, row: NewAttempt, end: AttemptEnd) -> None:
        if self._fate == "cancel" and end.how != "finished":
            await put_canceled(row, self._journal)
        elif self._fate == "deliver" and end.how != "finished":
            await self._put_release(row, end, self._host.release_reason())

    async def _put_word(self, row: NewAttempt, end: AttemptEnd) -> None:
        """Write down what an earlier run of this core had no time for: a job that was stopped is given back."""
        if end.how == "finished" or await self._journal.completion(row.attempt_id) is not None:
            return
        if await self._journal.release(row.attempt_id) is None:
            await self._put_release(row, end, "stopped")

    async def _put_release(self, row: NewAttempt, end: AttemptEnd, stopped: ReleaseReason) -> None:
        reason: ReleaseReason = "crash" if end.how == "interrupted" else stopped
        await self._journal.put_release(row.attempt_id, Release(epoch=row.epoch, reason=reason))
