"""W1, the poll a worker always keeps open: it carries control, verdicts on leases, and offers."""

import asyncio

import msgspec
from sqlalchemy import Connection, select

from coordinator.accounts.authorization import assert_worker_live, may_take_work
from coordinator.accounts.controls import control_for
from coordinator.accounts.keys import CoordinatorKeys
from coordinator.accounts.presence import Presence
from coordinator.queue.leases import Leases
from coordinator.queue.ledger import Ledger
from coordinator.queue.matching import Matcher, has_offerable_job
from coordinator.queue.parked import ParkedPoll, ParkedPolls
from coordinator.queue.rows import Attempt, as_attempt, find_job
from coordinator.storage.database import AnyRow, Database
from coordinator.storage.schema_queue import attempt as attempt_table
from worker_core.wire.problems import problem
from worker_core.wire.signed import Offer
from worker_core.wire.versions import is_older
from worker_core.wire.work import PollAnswer, PollRequest

UPGRADE_RETRY_S = 60.0


class _Seen(msgspec.Struct, frozen=True):
    """What one look at the database found for a poll."""

    answer: PollAnswer | None
    lost: tuple[str, ...] = ()
    waiting_jobs: bool = False


class Polls:
    """Answers polls."""

    def __init__(
        self,
        *,
        db: Database,
        ledger: Ledger,
        leases: Leases,
        parked: ParkedPolls,
        matcher: Matcher,
        keys: CoordinatorKeys,
        generation: int,
        presence: Presence,
    ) -> None:
        self._db = db
        self._ledger = ledger
        self._leases = leases
        self._parked = parked
        self._matcher = matcher
        self._keys = keys
        self._generation = generation
        self._presence = presence

    async def answer(self, poll: ParkedPoll, session_id: str, request: PollRequest) -> PollAnswer | None:
        """Return what the worker should know as soon as there is something; None when the wait is over."""
        self._presence.note(
            poll.worker_id,
            state=request.state,
            reasons=request.reasons,
            local_mode=request.local_mode,
            observed=request.observed,
            held_gpus=request.held_gpus,
        )
        loop = asyncio.get_running_loop()
        end = loop.time() + min(request.wait, self._ledger.settings.worker.poll_wait_s)
        self._parked.park(poll)
        try:
            while True:
                offered = poll.offered
                found = await self._look(poll, session_id, request)
                if found is None and poll.offered == offered:
                    # The offer it was woken for is gone again, so it may be offered something else.
                    poll.offered = None
                if found is not None or poll.ended is not None or not await poll.wait(end - loop.time()):
                    return found
        finally:
            self._parked.leave(poll)

    async def take_back(self, attempt_id: str) -> None:
        """Withdraw an offer whose poll is gone, so that the job need not wait for the offer to age."""
        await self._db.write(lambda conn: self._ledger.withdraw(conn, attempt_id))

    async def _look(self, poll: ParkedPoll, session_id: str, request: PollRequest) -> PollAnswer | None:
        """Look once; revive lost leases and ask for an offer where the look shows the need."""
        seen = await self._db.read(lambda conn: self._see(conn, poll, session_id, request))
        if seen.lost:
            await self._leases.revive(poll.worker_id, session_id, seen.lost)
            seen = await self._db.read(lambda conn: self._see(conn, poll, session_id, request))
        if seen.answer is None and seen.waiting_jobs:
            self._matcher.kick(poll.account_id)
        return seen.answer

    def _see(self, conn: Connection, poll: ParkedPoll, session_id: str, request: PollRequest) -> _Seen:
        now = self._ledger.clock.now()
        row = assert_worker_live(conn, poll.worker_id, session_id)
        floor = self._ledger.settings.min_worker_version
        if is_older(row.version, floor):
            # Only here: heartbeats, events and the end of a job that runs go on in the old version.
            detail = f"this coordinator gives jobs to version {floor} and later, this is {row.version}"
            raise problem("upgrade-required", detail, retry_after_s=UPGRADE_RETRY_S)
        verdicts = [self._leases.verdict(conn, poll.worker_id, held.attempt_id, held.epoch) for held in request.leases]
        lost = tuple(state.attempt_id for state in verdicts if state.verdict == "revived")
        control = control_for(conn, poll.worker_id, request.observed, now=now, gen=self._generation, keys=self._keys)
        takes = poll.takes_work and may_take_work(row, now)
        offer = self._open_offer(conn, row, now) if takes else None
        telling = tuple(state for state in verdicts if state.verdict not in ("ok", "revived"))
        if control is None and offer is None and not telling:
            return _Seen(None, lost, takes and has_offerable_job(conn, poll.account_id, now))
        return _Seen(PollAnswer(control=control, offer=offer, leases=telling), lost)

    def _open_offer(self, conn: Connection, row: AnyRow, now: float) -> str | None:
        a = attempt_table.c
        query = select(attempt_table).where(a.worker_id == row.id, a.state == "offered", a.offer_until >= now)
        found = conn.execute(query.order_by(a.id)).mappings().first()
        return self._signed(conn, as_attempt(found), row, now) if found is not None else None

    def _signed(self, conn: Connection, attempt: Attempt, row: AnyRow, now: float) -> str | None:
        job = find_job(conn, attempt.job_id)
        if job is None:
            return None
        return self._keys.sign(
            Offer(
                worker_id=row.id,
                thumbprint=row.thumbprint,
                gen=self._generation,
                attempt_id=attempt.id,
                job_id=job.id,
                epoch=attempt.epoch,
                kind=job.kind,
                spec_sha256=job.spec_sha256,
                inputs=job.wanted_files(),
                accept_within=round(attempt.offer_until - now, 3),
            )
        )
