"""Who owns which job: offers, leases and the fence. Each transition is one conditional UPDATE whose rowcount decides.

A job's ``epoch`` moves only when an offer is accepted (or ownership is taken away by force). An attempt may write only
while it is live and carries its job's current epoch; :meth:`Ledger.fence` is the one place that says so, and every
write of a worker passes it in the transaction of its effect.
"""

from typing import Protocol

from sqlalchemy import ColumnElement, Connection, exists, func, insert, select, update

from coordinator.clock import Clock
from coordinator.queue.feed import ChangeFeed
from coordinator.queue.rows import (
    Attempt,
    Held,
    Job,
    as_attempt,
    find_attempt,
    find_held,
    find_job,
    progress_at_resume,
)
from coordinator.settings import Settings
from coordinator.storage.database import after_commit
from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import job as job_table
from worker_core.wire.ids import new_id
from worker_core.wire.problems import ProblemError, problem
from worker_core.wire.vocabulary import LIVE_ATTEMPT_STATES, AttemptState


class Wakes(Protocol):
    """Who must look again after a commit. Called on the event loop."""

    def job_queued(self, account_id: str) -> None:
        """A job of this account may be offered now."""
        ...

    def wake_worker(self, worker_id: str) -> None:
        """Something concerns this worker: answer its parked poll."""
        ...


class Ledger:
    """All transitions of jobs and attempts up to the end of an attempt (see endings.py for that)."""

    def __init__(self, settings: Settings, clock: Clock, feed: ChangeFeed, wakes: Wakes) -> None:
        self.settings = settings
        self.clock = clock
        self.feed = feed
        self.wakes = wakes

    # -- offers -----------------------------------------------------------------------------------------------------

    def offer(self, conn: Connection, job: Job, worker_id: str, worker_name: str) -> str | None:
        """Propose the next epoch of a queued job to a worker; None when somebody was faster."""
        attempt_id = new_id("att")
        free = (job_table.c.state == "queued", job_table.c.offered_attempt.is_(None))
        if not set_job(conn, job.id, *free, offered_attempt=attempt_id):
            return None
        now = self.clock.now()
        conn.execute(
            insert(attempt_table).values(
                id=attempt_id,
                job_id=job.id,
                account_id=job.account_id,
                worker_id=worker_id,
                worker_name=worker_name,
                epoch=job.epoch + 1,
                state="offered",
                offer_until=now + self.settings.offer_accept_s,
                created_at=now,
            )
        )
        self.changed(conn, job.id)
        return attempt_id

    def withdraw(self, conn: Connection, attempt_id: str, **values: object) -> bool:
        """Take an open offer back; the job is free for others again and no attempt was counted."""
        attempt = find_attempt(conn, attempt_id)
        ended = {"state": "withdrawn", "ended_at": self.clock.now(), **values}
        if attempt is None or not set_attempt(conn, attempt_id, attempt_table.c.state == "offered", **ended):
            return False
        set_job(conn, attempt.job_id, job_table.c.offered_attempt == attempt_id, offered_attempt=None)
        self.changed(conn, attempt.job_id)
        self.requeued(conn, attempt.account_id)
        return True

    def accept(self, conn: Connection, held: Held) -> Held:
        """Turn an open offer into the running attempt of its job: here, and only here, the epoch moves on."""
        attempt, job, now = held.attempt, held.job, self.clock.now()
        accepted = set_attempt(
            conn,
            attempt.id,
            attempt_table.c.state == "offered",
            attempt_table.c.offer_until >= now,
            state="running",
            ordinal=job.ordinal + 1,
            start_step=job.resume_step,
            step=job.resume_step or 0,
            progress=progress_at_resume(conn, job),
            phase="starting",
            lease_until=now + self.settings.worker.lease_ttl_s,
            accepted_at=now,
        )
        owned = accepted and set_job(
            conn,
            job.id,
            job_table.c.state == "queued",
            job_table.c.epoch == attempt.epoch - 1,
            job_table.c.offered_attempt == attempt.id,
            **running_values(job, attempt.id, attempt.epoch, now),
        )
        if not owned:
            raise problem("offer-expired", "the offer was withdrawn or its 30 seconds are over")
        self.end_lost(conn, job.id, "superseded")
        self.changed(conn, job.id)
        return self.reread(conn, attempt.id, attempt.worker_id)

    # -- the fence --------------------------------------------------------------------------------------------------

    def fence(self, conn: Connection, attempt_id: str, worker_id: str, epoch: int) -> Held:
        """Return the attempt if this worker may write to it now, reviving a lost one that nobody replaced.

        Raises ``not-found`` for an attempt of somebody else and ``lease-superseded`` for everything not live.
        """
        held = find_held(conn, attempt_id, worker_id)
        if held is None:
            raise problem("not-found", f"this worker has no attempt {attempt_id}")
        if not may_write(held, epoch) or (held.attempt.state == "lost" and not self.revive(conn, held)):
            raise superseded(held)
        return self.reread(conn, attempt_id, worker_id) if held.attempt.state == "lost" else held

    def reread(self, conn: Connection, attempt_id: str, worker_id: str) -> Held:
        """Return an attempt that is known to exist, as it stands now."""
        held = find_held(conn, attempt_id, worker_id)
        if held is None:
            raise problem("not-found", f"this worker has no attempt {attempt_id}")
        return held

    def revive(self, conn: Connection, held: Held) -> bool:
        """Give a lost attempt its job back if nobody else was granted it; an open offer of the job is withdrawn."""
        attempt, job = held.attempt, held.job
        back = set_job(
            conn,
            job.id,
            job_table.c.state == "queued",
            job_table.c.epoch == attempt.epoch,
            state="running",
            current_attempt=attempt.id,
            failures=func.max(job_table.c.failures - 1, 0),
            lost_until=None,
            not_before=0.0,
            reason="",
        )
        lease_until = self.clock.now() + self.settings.worker.lease_ttl_s
        alive = back and set_attempt(
            conn,
            attempt.id,
            attempt_table.c.state == "lost",
            state="running",
            lease_until=lease_until,
            ended_at=None,
            failure=None,
            error=None,
        )
        if not alive:
            return False
        if job.offered_attempt is not None:
            self.withdraw(conn, job.offered_attempt)
        self.changed(conn, job.id)
        return True

    # -- leases -----------------------------------------------------------------------------------------------------

    def renew(self, conn: Connection, attempt_id: str, epoch: int, lease_until: float, **progress: object) -> bool:
        """Extend a live attempt's lease and note how far it is."""
        longer = func.max(func.coalesce(attempt_table.c.lease_until, 0.0), lease_until)
        return set_attempt(
            conn,
            attempt_id,
            attempt_table.c.state.in_(LIVE_ATTEMPT_STATES),
            attempt_table.c.epoch == epoch,
            lease_until=longer,
            **progress,
        )

    def grace(self, conn: Connection) -> None:
        """At start: no lease, offer or delay ends because the coordinator was away."""
        now, s = self.clock.now(), self.settings
        live = attempt_table.c.state.in_(LIVE_ATTEMPT_STATES)
        # Not max(old, new): a lease is never longer than this, unless the clock was wrong in the last run.
        conn.execute(update(attempt_table).where(live).values(lease_until=now + s.worker.lease_ttl_s))
        offered = attempt_table.c.state == "offered"
        conn.execute(update(attempt_table).where(offered).values(offer_until=now + s.offer_accept_s))
        queued = job_table.c.state == "queued"
        delayed = update(job_table).where(queued, job_table.c.not_before > now)
        conn.execute(delayed.values(not_before=now + s.lost_not_before_s))
        waiting = update(job_table).where(queued, job_table.c.lost_until.is_not(None))
        conn.execute(waiting.values(lost_until=now + job_table.c.max_offline_s))

    def overdue(self, conn: Connection) -> list[Attempt]:
        """Return running attempts whose lease, slack included, is over."""
        late = attempt_table.c.lease_until < self.clock.now() - self.settings.lease_slack_s
        query = select(attempt_table).where(attempt_table.c.state == "running", late)
        return [as_attempt(row) for row in conn.execute(query).mappings()]

    def stale_offers(self, conn: Connection) -> list[str]:
        """Return offers nobody accepted in time."""
        stale = attempt_table.c.offer_until < self.clock.now()
        query = select(attempt_table.c.id).where(attempt_table.c.state == "offered", stale)
        return list(conn.execute(query).scalars())

    # -- shared with endings.py -------------------------------------------------------------------------------------

    def changed(self, conn: Connection, job_id: str) -> None:
        """Record that a job changed, with what a list needs to show."""
        job = find_job(conn, job_id)
        if job is None:
            return
        detail: dict[str, object] = {
            "state": job.state,
            "attempt": job.ordinal,
            "offered": job.offered_attempt is not None,
        }
        self.feed.record(conn, job.account_id, "job", job_id, detail)

    def requeued(self, conn: Connection, account_id: str) -> None:
        """After the commit, look for a worker for what waits in this account."""
        after_commit(conn, lambda: self.wakes.job_queued(account_id))

    def wake(self, conn: Connection, worker_id: str) -> None:
        """After the commit, answer this worker's parked poll."""
        after_commit(conn, lambda: self.wakes.wake_worker(worker_id))

    def end_lost(self, conn: Connection, job_id: str, state: AttemptState) -> None:
        """The lost attempts of a job can no longer come back."""
        lost = (attempt_table.c.job_id == job_id, attempt_table.c.state == "lost")
        conn.execute(update(attempt_table).where(*lost).values(state=state))


def may_write(held: Held, epoch: int) -> bool:
    """Tell whether an attempt may write under this epoch: it is live, or lost and its job was given to nobody since."""
    state = held.attempt.state
    owns = epoch == held.attempt.epoch == held.job.epoch
    return owns and (state in LIVE_ATTEMPT_STATES or (state == "lost" and held.job.state == "queued"))


def superseded(held: Held) -> ProblemError:
    """Return the refusal of a write by an attempt that does not own its job."""
    return problem("lease-superseded", f"the attempt is {held.attempt.state}; the job goes on without it")


def running_values(job: Job, attempt_id: str, epoch: int, now: float) -> dict[str, object]:
    """Return the columns of a job that this attempt holds from now on."""
    return {
        "state": "running",
        "epoch": epoch,
        "ordinal": job.ordinal + 1,
        "current_attempt": attempt_id,
        "offered_attempt": None,
        "lost_until": None,
        "not_before": 0.0,
        "reason": "",
        "started_at": now if job.started_at is None else job.started_at,
    }


def set_job(conn: Connection, job_id: str, *guards: ColumnElement[bool], **values: object) -> bool:
    """Update one job under guards; tell whether they held."""
    return conn.execute(update(job_table).where(job_table.c.id == job_id, *guards).values(**values)).rowcount == 1


def set_attempt(conn: Connection, attempt_id: str, *guards: ColumnElement[bool], **values: object) -> bool:
    """Update one attempt under guards; tell whether they held."""
    where = (attempt_table.c.id == attempt_id, *guards)
    return conn.execute(update(attempt_table).where(*where).values(**values)).rowcount == 1


def has_open_offer(conn: Connection, worker_id: str, now: float) -> bool:
    """Tell whether an offer to this worker is open."""
    open_offer = exists().where(
        attempt_table.c.worker_id == worker_id, attempt_table.c.state == "offered", attempt_table.c.offer_until >= now
    )
    return bool(conn.execute(select(open_offer)).scalar())


def refusals(conn: Connection, job_id: str, worker_id: str) -> int:
    """Return how often a worker refused a job."""
    a = attempt_table.c
    query = select(func.count()).where(a.job_id == job_id, a.worker_id == worker_id, a.decline_until.is_not(None))
    return conn.execute(query).scalar() or 0
