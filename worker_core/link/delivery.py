"""Brings what the journal holds to the coordinator, in the background and for as long as it takes.

Each attempt has its own delivery: events in order and one batch in flight, files beside them, and after both the
word how it ended (W11) or that the job is given back (W12). All of it lies in the journal first, so a delivery goes
on after a crash where it stopped, and an answer that was lost is simply asked for again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptRow, EventSlice, JournalError, UploadRow
from worker_core.link.backoff import Backoff, may_help
from worker_core.link.breaker import Breaker
from worker_core.link.client import CoordinatorClient
from worker_core.link.exchange import WorkerRevoked
from worker_core.link.faults import TransportFault
from worker_core.link.uploads import send_file
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import Parameters
from worker_core.wire.work import Completion, EventBatch, MissingArtifact, Release

log = logging.getLogger(__name__)

_LOST = ("lease-superseded", "already-completed", "no-lease", "job-canceled", "not-found")
_FOR_THE_CALLER = ("events-missing", "artifacts-missing", "digest-mismatch")
_JOURNAL_CAP_S = 30.0
_SHORTEST_FLUSH_S = 0.05
"""A coordinator may ask for events at once, but nobody asks the journal without a pause."""


class AttemptLost(Exception):
    """The coordinator no longer takes anything of this attempt."""

    def __init__(self, problem: ProblemError) -> None:
        super().__init__(str(problem))
        self.problem = problem


class DeliveryWatch(Protocol):
    """What a delivery tells the core."""

    async def delivered(self, attempt_id: str) -> None:
        """Everything arrived and the end is recorded: the attempt can be forgotten here."""
        ...

    async def refused(self, attempt_id: str, why: str) -> None:
        """The coordinator takes nothing of this attempt any more."""
        ...

    def unknown(self, attempt_id: str) -> bool:
        """The coordinator does not know this attempt; True when it is asked once more before that counts."""
        ...

    def link_failed(self, fault: Exception) -> None:
        """A request failed; a refusal that concerns the whole connection is among these."""
        ...


@dataclass
class _Parcel:
    """One attempt under delivery."""

    attempt_id: str
    epoch: int
    ended: bool
    max_events: int = 500
    task: "asyncio.Task[None] | None" = None
    waiting: set[asyncio.Event] = field(default_factory=set[asyncio.Event])

    def nudge(self) -> None:
        """Wake whatever waits for news or for its next try."""
        for event in self.waiting:
            event.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait for a nudge, at most ``timeout_s``."""
        nudged = asyncio.Event()
        self.waiting.add(nudged)
        try:
            async with asyncio.timeout(timeout_s):
                await nudged.wait()
        except TimeoutError:
            return
        finally:
            self.waiting.discard(nudged)


class Delivery:
    """All deliveries of this worker. They wait for the first connection."""

    def __init__(
        self,
        client: CoordinatorClient,
        journal: Journal,
        locate: Callable[[str], Path],
        params: Callable[[], Parameters],
        now: Callable[[], float],
        watch: DeliveryWatch,
    ) -> None:
        self._client = client
        self._journal = journal
        self._locate = locate
        self._params = params
        self._watch = watch
        self._breaker = Breaker(now)
        self._parcels: dict[str, _Parcel] = {}
        self._connected = asyncio.Event()

    def begin(self, row: AttemptRow) -> None:
        """Start delivering what the journal holds of an attempt, and will hold."""
        parcel = _Parcel(row.attempt_id, row.epoch, ended=row.end is not None)
        self._parcels[row.attempt_id] = parcel
        parcel.task = asyncio.create_task(self._see_through(parcel), name=f"delivery of {row.attempt_id}")

    def conclude(self, attempt_id: str) -> None:
        """The attempt's end is in the journal: deliver the rest and close it."""
        parcel = self._parcels.get(attempt_id)
        if parcel is not None:
            parcel.ended = True
            parcel.nudge()

    def drop(self, attempt_id: str) -> None:
        """Stop delivering an attempt whose data is discarded."""
        parcel = self._parcels.pop(attempt_id, None)
        if parcel is not None and parcel.task is not None:
            parcel.task.cancel()

    def go_on(self) -> None:
        """The coordinator answers: send at once what waited."""
        self._connected.set()
        self._breaker.note_success()
        for parcel in self._parcels.values():
            parcel.nudge()

    async def stop(self) -> None:
        """End all deliveries; what is left goes on at the next start."""
        tasks = [parcel.task for parcel in self._parcels.values() if parcel.task is not None]
        self._parcels.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def settled(self, attempt_id: str, timeout_s: float) -> bool:
        """Wait until an attempt is delivered and closed; False when it is not after ``timeout_s``."""
        parcel = self._parcels.get(attempt_id)
        if parcel is None or parcel.task is None:
            return True
        done, _ = await asyncio.wait({parcel.task}, timeout=timeout_s)
        return bool(done)

    async def _see_through(self, parcel: _Parcel) -> None:
        """Deliver, from the start again where the journal or something unforeseen stood in the way: it lies there."""
        backoff = Backoff(_JOURNAL_CAP_S)
        try:
            while True:
                try:
                    if await self._deliver(parcel):
                        return
                except JournalError as error:
                    log.warning("delivery of %s waits: %s", parcel.attempt_id, error)
                except Exception:
                    log.exception("delivery of %s failed; it begins again", parcel.attempt_id)
                await parcel.wait(backoff.next_wait())
        finally:
            if self._parcels.get(parcel.attempt_id) is parcel:
                del self._parcels[parcel.attempt_id]

    async def _deliver(self, parcel: _Parcel) -> bool:
        """Deliver everything; False when the coordinator may know the attempt again soon."""
        try:
            await self._deliver_contents(parcel)
            await self._close(parcel)
        except (AttemptLost, ProblemError) as lost:
            refusal = lost.problem if isinstance(lost, AttemptLost) else lost
            if refusal.code == "not-found" and self._watch.unknown(parcel.attempt_id):
                return False
            await self._watch.refused(parcel.attempt_id, str(lost))
        except WorkerRevoked:
            log.info("delivery of %s ends: the worker is revoked", parcel.attempt_id)
        else:
            await self._watch.delivered(parcel.attempt_id)
        return True

    async def _deliver_contents(self, parcel: _Parcel) -> None:
        """Deliver events and files side by side; both end when the attempt has ended and nothing is left."""
        files = asyncio.create_task(self._deliver_files(parcel))
        try:
            await self._deliver_events(parcel)
            await asyncio.wait({files}, timeout=await self._patience(parcel))
            if files.done():
                await files
        finally:
            files.cancel()
            await asyncio.gather(files, return_exceptions=True)

    async def _patience(self, parcel: _Parcel) -> float | None:
        """A job given back waits only so long for its checkpoint's upload; a cancelled one not at all."""
        completion = await self._journal.completion(parcel.attempt_id)
        if completion is not None and completion.outcome == "canceled":
            return 0.0
        released = await self._journal.release(parcel.attempt_id) is not None
        return self._params().checkpoint_upload_wait_s if released else None

    async def _deliver_events(self, parcel: _Parcel) -> None:
        while True:
            ended = parcel.ended
            slice_ = await self._journal.next_events(
                parcel.attempt_id, max_events=parcel.max_events, max_bytes=self._params().events_max_bytes
            )
            if slice_ is not None:
                await self._persist(parcel, lambda part=slice_: self._send_events(parcel, part))
            elif ended:
                return
            if not parcel.ended:
                await parcel.wait(max(_SHORTEST_FLUSH_S, self._params().events_flush_s))

    async def _send_events(self, parcel: _Parcel, part: EventSlice) -> None:
        batch = EventBatch(epoch=parcel.epoch, first_seq=part.first_seq, events=part.events)
        try:
            taken = await self._client.send_events(parcel.attempt_id, batch)
        except ProblemError as error:
            if not await self._mend_events(parcel, part, error):
                raise
        else:
            parcel.max_events = self._params().events_max
            await self._journal.events_taken(parcel.attempt_id, taken.next_seq)

    async def _mend_events(self, parcel: _Parcel, part: EventSlice, error: ProblemError) -> bool:
        """Act on a refusal that concerns the batch itself; False when it is another."""
        problem = error.problem
        if error.code == "event-gap" and problem.next_seq is not None:
            await self._journal.events_taken(parcel.attempt_id, problem.next_seq)
            # A coordinator that went back asks for events that are gone here: the same batch waits its turn.
            return part.probe or problem.next_seq > part.first_seq
        if problem.status not in (400, 413, 422) or not part.events:
            return False
        if error.code == "bad-event" and problem.index is not None:
            bad = problem.index
        elif len(part.events) > 1:
            parcel.max_events = max(1, len(part.events) // 2)  # find the culprit by halves
            return True
        else:
            bad = 0
        log.warning("an event of %s was refused: %s", parcel.attempt_id, error)
        await self._journal.replace_event(parcel.attempt_id, part.seq_of(bad), error.code)
        return True

    async def _deliver_files(self, parcel: _Parcel) -> None:
        while True:
            ended = parcel.ended
            rows = await self._journal.uploads(parcel.attempt_id)
            if rows:
                await self._deliver_file(parcel, rows[0])
            elif ended:
                return
            elif not parcel.ended:
                await parcel.wait(max(_SHORTEST_FLUSH_S, self._params().events_flush_s))

    async def _deliver_file(self, parcel: _Parcel, row: UploadRow) -> None:
        file = self._locate(row.sha256)
        try:
            await self._persist(
                parcel, lambda: send_file(self._client, self._journal, row, parcel.epoch, file), patient_s=60.0
            )
        except ProblemError as error:
            await self._refuse_file(row, error.code)
        except OSError as error:
            await self._refuse_file(row, f"lost here: {error.strerror}")

    async def _refuse_file(self, row: UploadRow, reason: str) -> None:
        log.warning("%s of %s will be missing: %s", row.name, row.attempt_id, reason)
        await self._journal.set_upload(
            row.attempt_id, row.sha256, only=(row.kind, row.name), state="refused", reason=reason
        )
        await self._journal.set_aside(row.attempt_id, f"{row.kind} {row.name}", reason)

    async def _close(self, parcel: _Parcel) -> None:
        """Say the end until it is recorded, however often the coordinator asks for more: it stays in the journal."""
        backoff = Backoff(self._params().bulk_retry_cap_s)
        while True:
            try:
                await self._persist(parcel, lambda: self._say_end(parcel))
            except ProblemError as error:
                await self._bring_back(parcel, error)
                await self._deliver_contents(parcel)
                if backoff.failures:
                    log.warning("the end of %s is not recorded yet: %s", parcel.attempt_id, error)
                pause_s = backoff.next_wait(error)
                if backoff.failures > 1:  # what was asked for the first time may well be all
                    await parcel.wait(pause_s)
            else:
                return

    async def _bring_back(self, parcel: _Parcel, error: ProblemError) -> None:
        """Put what the coordinator still misses in line again; another refusal ends the attempt."""
        if error.code == "artifacts-missing":
            for sha256 in error.problem.missing:
                await self._journal.set_upload(parcel.attempt_id, sha256, state="waiting")
        elif error.code == "events-missing" and error.problem.next_seq is not None:
            await self._journal.events_taken(parcel.attempt_id, error.problem.next_seq)
        else:
            raise AttemptLost(error) from error

    async def _say_end(self, parcel: _Parcel) -> None:
        release = await self._journal.release(parcel.attempt_id)
        completion = await self._journal.completion(parcel.attempt_id)
        if release is not None and completion is None:
            await self._client.release(parcel.attempt_id, await self._with_checkpoint(parcel, release))
            return
        canceled = completion is not None and completion.outcome == "canceled"
        completion = await self._make_completion(parcel, canceled)
        await self._journal.put_completion(parcel.attempt_id, completion)
        await self._client.complete(parcel.attempt_id, completion)

    async def _with_checkpoint(self, parcel: _Parcel, release: Release) -> Release:
        """Name the newest checkpoint that did arrive."""
        rows = await self._journal.uploads(parcel.attempt_id, unfinished=False)
        arrived = [row for row in rows if row.kind == "checkpoint" and row.state == "done"]
        if not arrived:
            return release
        newest = max(arrived, key=lambda row: row.step or 0)
        return msgspec.structs.replace(release, checkpoint=newest.sha256, step=newest.step)

    async def _make_completion(self, parcel: _Parcel, canceled: bool) -> Completion:
        row = await self._journal.attempt(parcel.attempt_id)
        if row is None or row.end is None:
            raise LookupError(f"{parcel.attempt_id} has no end in the journal")
        files = await self._journal.uploads(parcel.attempt_id, unfinished=False)
        return Completion(
            epoch=row.epoch,
            outcome="canceled" if canceled else row.end.outcome or "failed",
            final_seq=self._journal.next_seq(parcel.attempt_id),
            exit=row.end.exit,
            artifacts=tuple(file.sha256 for file in files if file.state == "done"),
            missing=tuple(
                MissingArtifact(sha256=file.sha256, reason=file.reason) for file in files if file.state == "refused"
            ),
            error=row.end.error,
            usage=row.end.usage,
        )

    async def _persist(
        self, parcel: _Parcel, step: Callable[[], Awaitable[None]], patient_s: float | None = None
    ) -> None:
        """Do one step, again after every fault that time may cure; other refusals are raised."""
        backoff = Backoff(patient_s or self._params().bulk_retry_cap_s)
        while True:
            await self._connected.wait()
            await self._breaker.pass_through()
            try:
                await step()
            except TransportFault as fault:
                self._breaker.note_fault()
                pause_s = backoff.next_wait(fault)
            except ProblemError as error:
                self._raise_unless_curable(error)
                pause_s = backoff.next_wait(error)
            except WorkerRevoked as revoked:
                self._watch.link_failed(revoked)
                raise
            else:
                self._breaker.note_success()
                return
            await parcel.wait(pause_s)

    def _raise_unless_curable(self, error: ProblemError) -> None:
        if error.code in _LOST or error.problem.action == "stop_attempt":
            raise AttemptLost(error) from error
        if error.problem.action in ("new_session", "new_token") or error.problem.status == 401:
            self._watch.link_failed(error)
        elif error.code != "authorization-expired" and (not may_help(error) or error.code in _FOR_THE_CALLER):
            raise error
