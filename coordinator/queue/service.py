"""The queue as one thing: its parts wired together, and what accounts, console and endpoints ask of it."""

from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, exists, select

from coordinator.accounts.keys import CoordinatorKeys
from coordinator.accounts.presence import Presence
from coordinator.clock import Clock
from coordinator.queue.attempts import Attempts
from coordinator.queue.connecting import Connecting
from coordinator.queue.endings import Endings
from coordinator.queue.feed import ChangeFeed
from coordinator.queue.ingest import Ingest
from coordinator.queue.jobs import JobService
from coordinator.queue.leases import Leases
from coordinator.queue.ledger import Ledger
from coordinator.queue.matching import Matcher
from coordinator.queue.parked import ParkedPolls
from coordinator.queue.polls import Polls
from coordinator.queue.reaper import Reaper
from coordinator.queue.regrant import Regrants
from coordinator.queue.rows import as_attempt, find_job
from coordinator.queue.uploads import ArtifactService
from coordinator.queue.views import current_job_view
from coordinator.settings import Settings
from coordinator.storage.database import Database
from coordinator.storage.schema_queue import attempt as attempt_table
from worker_core.wire.client import CurrentJob
from worker_core.wire.session import HeldAttempt, Verdict
from worker_core.wire.vocabulary import LIVE_ATTEMPT_STATES

WORKER_FAULTS = ("crash", "signal", "silence", "device-lost", "driver-mismatch", "start-failed", "lost")
"""Failures that speak against the workstation rather than against the job."""


class QueueService:
    """Jobs, attempts, leases, events, artifacts and the change feed of one coordinator."""

    def __init__(
        self,
        *,
        db: Database,
        settings: Settings,
        clock: Clock,
        keys: CoordinatorKeys,
        generation: int,
        presence: Presence,
        data: Path,
    ) -> None:
        self._db = db
        self._clock = clock
        self._matcher = Matcher(db, clock)
        self.parked = ParkedPolls(self._matcher.kick)
        self.feed = ChangeFeed(db, clock, generation, settings.changes_keep)
        self._ledger = Ledger(settings, clock, self.feed, self.parked)
        self._endings = Endings(self._ledger)
        self._leases = Leases(db, self._ledger, presence, generation, keys)
        self._connecting = Connecting(
            self._ledger, self._endings, self._leases, Regrants(self._ledger, keys, generation)
        )
        self.polls = Polls(
            db=db,
            ledger=self._ledger,
            leases=self._leases,
            parked=self.parked,
            matcher=self._matcher,
            keys=keys,
            generation=generation,
            presence=presence,
        )
        self.leases = self._leases
        self.attempts = Attempts(db, self._ledger, self._endings)
        self.ingest = Ingest(db, self._ledger)
        self.artifacts = ArtifactService(db, self._ledger, data)
        self.jobs = JobService(db, self._ledger, self._endings, presence)
        self._reaper = Reaper(db, self._ledger, self._endings, self._leases, self.parked, self.artifacts)

    # -- life -----------------------------------------------------------------------------------------------------

    async def on_start(self) -> None:
        """Before serving: nothing ended because the coordinator was away."""
        await self._db.write(self._ledger.grace)

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return what runs beside requests for the coordinator's life."""
        return (self._matcher.run(self._ledger, self.parked), *self._reaper.tasks())

    def on_stop(self) -> None:
        """Answer all parked polls, wake those who follow changes, and end what takes long."""
        self.artifacts.files.stop()
        self.parked.stop()
        self.feed.wake_all()

    # -- asked by the accounts' side ------------------------------------------------------------------------------

    def fence_worker(self, conn: Connection, worker_id: str) -> None:
        """In the transaction of a revocation: end everything the worker holds and free its jobs for others."""
        self._endings.fence_worker(conn, worker_id)

    def recent_failures(self, conn: Connection, worker_id: str, limit: int) -> Sequence[bool]:
        """Tell of the last ended attempts, newest first, whether each failed by the worker's fault."""
        a = attempt_table.c
        query = (
            select(a.state, a.failure)
            .where(a.worker_id == worker_id, a.accepted_at.is_not(None), a.ended_at.is_not(None))
            .order_by(a.ended_at.desc())
            .limit(limit)
        )
        return [failure in WORKER_FAULTS for _, failure in conn.execute(query)]

    def current_job(self, conn: Connection, worker_id: str) -> CurrentJob | None:
        """Return the job the worker runs."""
        a = attempt_table.c
        live = select(attempt_table).where(a.worker_id == worker_id, a.state.in_(LIVE_ATTEMPT_STATES))
        row = conn.execute(live.order_by(a.accepted_at.desc())).mappings().first()
        attempt = as_attempt(row) if row is not None else None
        job = find_job(conn, attempt.job_id) if attempt is not None else None
        return current_job_view(job, attempt, self._clock.now()) if attempt is not None and job is not None else None

    def sees_job_through(self, conn: Connection, worker_id: str) -> bool:
        """Tell whether the worker still has a job to end, which it may do in a version that takes no new one."""
        a = attempt_table.c
        since = self._clock.now() - self._ledger.settings.outdated_job_s
        mine = exists().where(
            a.worker_id == worker_id, a.state.in_((*LIVE_ATTEMPT_STATES, "lost")), a.accepted_at > since
        )
        return bool(conn.execute(select(mine)).scalar())

    def held_verdicts(self, conn: Connection, worker_id: str, held: Sequence[HeldAttempt]) -> tuple[Verdict, ...]:
        """Say what becomes of the attempts a connecting worker holds; release what it holds no more."""
        return self._connecting.verdicts(conn, worker_id, held)

    def record_change(self, conn: Connection, account_id: str, subject: str, subject_id: str) -> None:
        """Write one line of the account's change feed."""
        self.feed.record(conn, account_id, subject, subject_id)

    def forget_beats(self, worker_id: str) -> None:
        """Begin the worker's heartbeat numbers anew."""
        self._leases.forget_beats(worker_id)

    def wake_worker(self, worker_id: str) -> None:
        """Let the worker's parked poll look again."""
        self.parked.wake_worker(worker_id)
