"""Brings queued jobs and parked polls together: one job, one offer, one poll woken."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from sqlalchemy import ColumnElement, Connection, exists, select

from coordinator.accounts.authorization import may_take_work
from coordinator.clock import Clock
from coordinator.queue.eligibility import Needs, WorkerFacts, facts_of, unfit, without_gpus
from coordinator.queue.ledger import Ledger, has_open_offer
from coordinator.queue.parked import ParkedPoll, ParkedPolls
from coordinator.queue.rows import find_job
from coordinator.storage.database import Database, after_commit
from coordinator.storage.schema import worker as worker_table
from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import job as job_table
from worker_core.wire.codec import decode
from worker_core.wire.failure_rules import RULES

log = logging.getLogger(__name__)

ELSEWHERE_FIRST_S = 60.0
_ELSEWHERE = tuple(name for name, rule in RULES.items() if rule.retry == "elsewhere")

# A made offer: the poll that gets it, and the attempt.
Match = tuple[ParkedPoll, str]


class Matcher:
    """One task that makes offers whenever an account has a new job or a new poll."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._due: set[str] = set()
        self._kicked = asyncio.Event()

    def kick(self, account_id: str) -> None:
        """Look for matches in this account soon."""
        self._due.add(account_id)
        self._kicked.set()

    async def run(self, ledger: Ledger, parked: ParkedPolls) -> None:
        """Make offers for ever."""
        while True:
            await self._kicked.wait()
            self._kicked.clear()
            accounts, self._due = self._due, set()
            polls = parked.ready(accounts)
            if not polls:
                continue
            try:
                await self._db.write(lambda conn, polls=polls: self._offer_all(conn, ledger, parked, polls))
            except Exception:
                # The reaper asks again within seconds, and everyone else must go on getting offers meanwhile.
                log.exception("no offers could be made")

    def _offer_all(self, conn: Connection, ledger: Ledger, parked: ParkedPolls, polls: list[ParkedPoll]) -> None:
        by_account: dict[str, list[ParkedPoll]] = {}
        for poll in polls:
            by_account.setdefault(poll.account_id, []).append(poll)
        for account_id, waiting in by_account.items():
            for poll, attempt_id in self._match(conn, ledger, account_id, waiting):
                after_commit(conn, _telling(parked, poll, attempt_id))

    def _match(self, conn: Connection, ledger: Ledger, account_id: str, polls: list[ParkedPoll]) -> Iterator[Match]:
        now = self._clock.now()
        free = {poll: facts for poll in polls if (facts := _free(conn, poll, now)) is not None}
        j = job_table.c
        waiting = select(j.id, j.kind, j.target).where(*offerable(account_id, now)).order_by(j.priority.desc(), j.id)
        for job_id, kind, target in conn.execute(waiting).all():
            if not free:
                return
            chosen = _choose(conn, job_id, kind, decode(target, Needs), free, now)
            job = find_job(conn, job_id) if chosen is not None else None
            if chosen is None or job is None:
                continue
            attempt_id = ledger.offer(conn, job, chosen.worker_id, free.pop(chosen).name)
            if attempt_id is not None:
                yield chosen, attempt_id


def offerable(account_id: str, now: float) -> tuple[ColumnElement[bool], ...]:
    """Return what makes a job one that may be offered now."""
    j = job_table.c
    return (
        j.account_id == account_id,
        j.state == "queued",
        j.offered_attempt.is_(None),
        j.lost_until.is_(None),
        j.not_before <= now,
    )


def has_offerable_job(conn: Connection, account_id: str, now: float) -> bool:
    """Tell whether any job of the account waits for a worker."""
    return bool(conn.execute(select(exists().where(*offerable(account_id, now)))).scalar())


def _choose(
    conn: Connection, job_id: str, kind: str, target: Needs, free: dict[ParkedPoll, WorkerFacts], now: float
) -> ParkedPoll | None:
    declined = {*_declined(conn, job_id, now), *_failed_by_device(conn, job_id, now)}
    fitting = (
        poll for poll, facts in free.items() if poll.worker_id not in declined and unfit(facts, kind, target) is None
    )
    return next(fitting, None)


def _free(conn: Connection, poll: ParkedPoll, now: float) -> WorkerFacts | None:
    worker_id = poll.worker_id
    row = conn.execute(select(worker_table).where(worker_table.c.id == worker_id)).first()
    if row is None or not may_take_work(row, now) or has_open_offer(conn, worker_id, now):
        return None
    return without_gpus(facts_of(row), poll.held_gpus)


def _declined(conn: Connection, job_id: str, now: float) -> list[str]:
    a = attempt_table.c
    query = select(a.worker_id).where(a.job_id == job_id, a.state == "withdrawn", a.decline_until > now)
    return list(conn.execute(query).scalars())


def _failed_by_device(conn: Connection, job_id: str, now: float) -> list[str]:
    """Return the workers whose device failed under this job a moment ago: another one gets it first."""
    a = attempt_table.c
    lately = (a.job_id == job_id, a.state == "failed", a.ended_at > now - ELSEWHERE_FIRST_S)
    return list(conn.execute(select(a.worker_id).where(*lately, a.failure.in_(_ELSEWHERE))).scalars())


def _telling(parked: ParkedPolls, poll: ParkedPoll, attempt_id: str) -> Callable[[], None]:
    def tell() -> None:
        poll.offered = attempt_id
        # By name: a newer poll of the worker may have taken this one's place meanwhile.
        parked.wake_worker(poll.worker_id)

    return tell
