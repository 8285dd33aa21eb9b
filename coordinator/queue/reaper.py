"""What happens because time passed: offers age, leases end, cancellations are forced, old things are forgotten."""

from collections.abc import Coroutine
from typing import Any

from sqlalchemy import Connection

from coordinator.queue.endings import Endings
from coordinator.queue.leases import Leases
from coordinator.queue.ledger import Ledger
from coordinator.queue.parked import ParkedPolls
from coordinator.queue.uploads import ArtifactService
from coordinator.rounds import every
from coordinator.storage.database import Database
from coordinator.storage.events import forget_events

LEASE_FLUSH_S = 1.0
_FORGET_ROUNDS = 200
"""Writes of one round that remove old events; what is left then waits for the next."""


class Reaper:
    """Runs the rules of time at their intervals."""

    def __init__(
        self,
        db: Database,
        ledger: Ledger,
        endings: Endings,
        leases: Leases,
        parked: ParkedPolls,
        artifacts: ArtifactService,
    ) -> None:
        self._db = db
        self._ledger = ledger
        self._endings = endings
        self._leases = leases
        self._parked = parked
        self._artifacts = artifacts

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the loops to run."""
        settings = self._ledger.settings
        return (
            every(min(LEASE_FLUSH_S, settings.reaper_s), self._leases.flush),
            every(settings.reaper_s, self.reap),
            every(settings.blob_gc_s, self.keep_house),
        )

    async def reap(self) -> None:
        """Apply every rule once, with all renewals that are known by now."""
        renew = self._leases.gathered()

        def write(conn: Connection) -> None:
            if renew is not None:
                renew(conn)
            self.apply(conn)

        await self._db.write(write)
        # A job's delay may be over without anything having happened.
        for account_id in self._parked.accounts_waiting():
            self._parked.job_queued(account_id)

    def apply(self, conn: Connection) -> None:
        """Inside a write: everything that is due by now."""
        for attempt_id in self._ledger.stale_offers(conn):
            self._ledger.withdraw(conn, attempt_id)
        for attempt in self._ledger.overdue(conn):
            self._endings.lose(conn, attempt)
        self._endings.give_up_waiting(conn)
        self._endings.force_cancellations(conn)
        self._endings.end_expired(conn)

    async def keep_house(self) -> None:
        """Forget old changes, uploads, bytes and logs."""
        await self._db.write(self._ledger.feed.prune)
        ended_before = self._ledger.clock.now() - self._ledger.settings.log_keep_s
        for _ in range(_FORGET_ROUNDS):
            if not await self._db.write(lambda conn: forget_events(conn, ended_before)):
                break
        await self._artifacts.collect()
