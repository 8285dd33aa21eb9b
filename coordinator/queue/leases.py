"""W4 and the verdicts on leases. Renewals are gathered for a second and written together."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from sqlalchemy import Connection, func

from coordinator.accounts.authorization import assert_worker_live, authorization_of
from coordinator.accounts.beats import BeatWatch
from coordinator.accounts.controls import control_for
from coordinator.accounts.keys import CoordinatorKeys
from coordinator.accounts.presence import Presence
from coordinator.queue.ledger import Ledger
from coordinator.queue.rows import find_attempt, find_held
from coordinator.storage.database import Database
from coordinator.storage.schema_queue import attempt as attempt_table
from worker_core.wire.codec import encode
from worker_core.wire.session import Authorization, Control
from worker_core.wire.work import Heartbeat, HeartbeatAnswer, LeaseReport, LeaseState


class _Beat(msgspec.Struct, frozen=True):
    control: Control | None
    authorization: Authorization
    leases: tuple[LeaseState, ...]


class _Renewal(msgspec.Struct, frozen=True):
    epoch: int
    lease_until: float
    values: dict[str, Any]


class Leases:
    """Who still holds what."""

    def __init__(
        self, db: Database, ledger: Ledger, presence: Presence, generation: int, keys: CoordinatorKeys
    ) -> None:
        self._beats = BeatWatch(ledger.clock)
        self.on_repeated_beat: Callable[[str], Awaitable[None]] | None = None
        """Called with a worker that sent two different heartbeats of one number."""
        self._db = db
        self._keys = keys
        self._ledger = ledger
        self._presence = presence
        self._generation = generation
        self._renewals: dict[str, _Renewal] = {}
        self._newest: dict[str, tuple[str, int]] = {}

    async def heartbeat(self, worker_id: str, session_id: str, beat: Heartbeat) -> HeartbeatAnswer:
        """Renew the leases a worker reports and tell it what it must know about each."""
        look = await self._db.read(lambda conn: self._see(conn, worker_id, session_id, beat))
        leases = await self._revived(worker_id, session_id, look.leases)
        digest = hashlib.sha256(encode(beat)).digest()[:16]
        if self._beats.repeats(worker_id, session_id, beat.n, digest) and self.on_repeated_beat is not None:
            await self.on_repeated_beat(worker_id)
        if self._is_newest(worker_id, session_id, beat.n):
            self._presence.note(
                worker_id,
                state=beat.state,
                reasons=beat.reasons,
                local_mode=beat.local_mode,
                observed=beat.observed,
                health=beat.health,
                outbox=beat.outbox,
            )
            self._gather(beat.leases, {state.attempt_id for state in leases if state.ttl > 0})
        return HeartbeatAnswer(n=beat.n, authorization=look.authorization, control=look.control, leases=leases)

    def verdict(self, conn: Connection, worker_id: str, attempt_id: str, epoch: int) -> LeaseState:
        """Return what becomes of a lease the worker believes in; ``revived`` still has to be done."""
        ttl = self._ledger.settings.worker.lease_ttl_s
        held = find_held(conn, attempt_id, worker_id)
        if held is None:
            return LeaseState(attempt_id=attempt_id, verdict="unknown")
        attempt, job = held.attempt, held.job
        current = epoch == attempt.epoch == job.epoch
        if current and attempt.state == "running":
            return LeaseState(attempt_id=attempt_id, verdict="ok", ttl=ttl)
        if current and attempt.state == "canceling":
            return LeaseState(attempt_id=attempt_id, verdict="cancel", ttl=ttl)
        if current and attempt.state == "lost" and job.state == "queued":
            return LeaseState(attempt_id=attempt_id, verdict="revived", ttl=ttl)
        return LeaseState(attempt_id=attempt_id, verdict="superseded")

    async def revive(self, worker_id: str, session_id: str, attempt_ids: Iterable[str]) -> set[str]:
        """Give lost attempts their jobs back where nobody else was granted them; return those that live again."""

        def write(conn: Connection) -> set[str]:
            assert_worker_live(conn, worker_id, session_id)
            found = [find_held(conn, attempt_id, worker_id) for attempt_id in attempt_ids]
            lost = [held for held in found if held is not None and held.attempt.state == "lost"]
            return {held.attempt.id for held in lost if self._ledger.revive(conn, held)}

        return await self._db.write(write)

    def forget_beats(self, worker_id: str) -> None:
        """Begin the worker's heartbeat numbers anew: its key changed, and what a copy of it sent is over."""
        self._beats.forget(worker_id)
        self._newest.pop(worker_id, None)

    def gathered(self) -> Callable[[Connection], None] | None:
        """Take the gathered renewals (on the event loop); the result writes them down, None when there are none."""
        if not self._renewals:
            return None
        renewals, self._renewals = self._renewals, {}

        def write(conn: Connection) -> None:
            for attempt_id, renewal in renewals.items():
                if self._ledger.renew(conn, attempt_id, renewal.epoch, renewal.lease_until, **renewal.values):
                    attempt = find_attempt(conn, attempt_id)
                    self._ledger.changed(conn, attempt.job_id if attempt else "")

        return write

    async def flush(self) -> None:
        """Write the gathered renewals down."""
        write = self.gathered()
        if write is not None:
            await self._db.write(write)

    async def _revived(self, worker_id: str, session_id: str, leases: tuple[LeaseState, ...]) -> tuple[LeaseState, ...]:
        lost = {state.attempt_id for state in leases if state.verdict == "revived"}
        if not lost:
            return leases
        gone = lost - await self.revive(worker_id, session_id, lost)
        return tuple(
            LeaseState(attempt_id=state.attempt_id, verdict="superseded") if state.attempt_id in gone else state
            for state in leases
        )

    def _see(self, conn: Connection, worker_id: str, session_id: str, beat: Heartbeat) -> _Beat:
        now = self._ledger.clock.now()
        row = assert_worker_live(conn, worker_id, session_id)
        return _Beat(
            control=control_for(conn, worker_id, beat.observed, now=now, gen=self._generation, keys=self._keys),
            authorization=authorization_of(row, now),
            leases=tuple(self.verdict(conn, worker_id, lease.attempt_id, lease.epoch) for lease in beat.leases),
        )

    def _gather(self, reports: Iterable[LeaseReport], held: set[str]) -> None:
        now = self._ledger.clock.now()
        for report in reports:
            if report.attempt_id not in held:
                continue
            values: dict[str, Any] = {
                "phase": report.phase,
                # A job that starts from a checkpoint knows where it is only after it has read it.
                "step": func.max(attempt_table.c.step, report.step),
                "progress": func.max(attempt_table.c.progress, min(1.0, max(0.0, report.pct / 100))),
                "eta_s": report.eta_s,
            }
            if report.checkpoint_age_s is not None:
                values["checkpoint_at"] = now - report.checkpoint_age_s
            lease_until = now + self._ledger.settings.worker.lease_ttl_s
            self._renewals[report.attempt_id] = _Renewal(report.epoch, lease_until, values)

    def _is_newest(self, worker_id: str, session_id: str, n: int) -> bool:
        """Tell whether a heartbeat is not older than one of the same connection that came before it."""
        session, newest = self._newest.get(worker_id, (session_id, -1))
        if session == session_id and n < newest:
            return False
        self._newest[worker_id] = (session_id, n)
        return True
