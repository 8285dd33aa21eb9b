"""W2, W3, W11 and W12: a worker takes an offer, refuses it, ends an attempt, or gives a job back.

Every call first makes sure that the worker is not revoked and this is its connection, in the transaction of the effect.
"""

import hashlib
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from sqlalchemy import Connection

from coordinator.accounts.authorization import assert_worker_live, may_take_work
from coordinator.queue.endings import Endings
from coordinator.queue.ledger import Ledger, refusals
from coordinator.queue.rows import Held, find_held
from coordinator.storage.artifacts import ready_contents
from coordinator.storage.database import AnyRow, Database
from worker_core.wire.codec import encode
from worker_core.wire.problems import problem
from worker_core.wire.vocabulary import LIVE_ATTEMPT_STATES, Outcome
from worker_core.wire.work import Accepted, Completion, Decline, Lease, Recorded, Release

T = TypeVar("T")
_DECLINE_FIRST_S = 5.0
_DECLINE_LONGEST_S = 300.0


class Caller(Protocol):
    """A worker and the connection it speaks through."""

    @property
    def worker_id(self) -> str: ...

    @property
    def session_id(self) -> str: ...


class Attempts:
    """What a worker may do with an attempt."""

    def __init__(self, db: Database, ledger: Ledger, endings: Endings) -> None:
        self._db = db
        self._ledger = ledger
        self._endings = endings

    async def accept(self, caller: Caller, attempt_id: str, epoch: int) -> Accepted:
        """Start an attempt; the same call again answers the same (W2)."""

        def write(conn: Connection, row: AnyRow) -> Accepted:
            held = find_held(conn, attempt_id, caller.worker_id)
            if held is None:
                raise problem("not-found", f"this worker has no attempt {attempt_id}")
            if held.attempt.state == "offered":
                held = self._take(conn, row, held, epoch)
            else:
                _check_repeat(held, epoch)
            return self._accepted(held)

        return await self._write(caller, write)

    async def decline(self, caller: Caller, attempt_id: str, body: Decline) -> None:
        """Give an offer back; nothing is counted, but this worker is not asked again for a while (W3)."""

        def write(conn: Connection, _: AnyRow) -> None:
            held = find_held(conn, attempt_id, caller.worker_id)
            if held is None:
                raise problem("not-found", f"this worker has no attempt {attempt_id}")
            if held.attempt.state != "offered" or held.attempt.epoch != body.epoch:
                return
            # Each refusal doubles the pause: a worker that never can must not be asked for ever.
            growing_s = _DECLINE_FIRST_S * 2.0 ** min(refusals(conn, held.job.id, caller.worker_id), 10)
            until = self._ledger.clock.now() + min(max(body.retry_after_s, growing_s), _DECLINE_LONGEST_S)
            self._ledger.withdraw(conn, attempt_id, decline_until=until, decline_reason=body.reason[:500])

        await self._write(caller, write)

    async def complete(self, caller: Caller, attempt_id: str, body: Completion) -> Recorded:
        """Record the end of an attempt once everything it announced has arrived; replayable (W11)."""
        digest = hashlib.sha256(encode(body)).hexdigest()
        if body.exit is not None and not -(2**63) <= body.exit < 2**63:
            raise problem("invalid-request", f"exit is {body.exit}, which no system gives")

        def write(conn: Connection, _: AnyRow) -> Recorded:
            held = find_held(conn, attempt_id, caller.worker_id)
            if held is not None and held.attempt.completion_sha256 is not None:
                return _repeated(held, digest)
            held = self._ledger.fence(conn, attempt_id, caller.worker_id, body.epoch)
            _check_everything_arrived(conn, held, body)
            return Recorded(recorded=self._endings.complete(conn, held, body, digest))

        return await self._write(caller, write)

    async def release(self, caller: Caller, attempt_id: str, body: Release) -> None:
        """Give a job back to the queue; the same call again changes nothing (W12)."""

        def write(conn: Connection, _: AnyRow) -> None:
            held = find_held(conn, attempt_id, caller.worker_id)
            if held is not None and held.attempt.state == "released" and held.attempt.epoch == body.epoch:
                return
            held = self._ledger.fence(conn, attempt_id, caller.worker_id, body.epoch)
            self._endings.release(conn, held, body.reason, body)

        await self._write(caller, write)

    def _take(self, conn: Connection, row: AnyRow, held: Held, epoch: int) -> Held:
        if held.job.state == "canceled":
            raise problem("job-canceled", "the job was cancelled while it was offered")
        if not may_take_work(row, self._ledger.clock.now()):
            # A drain, a stop or the end of the authorization overtook the offer.
            raise problem("offer-expired", f"{row.name} may not take work now")
        if held.attempt.epoch != epoch:
            raise problem("lease-superseded", f"the offer has epoch {held.attempt.epoch}, not {epoch}")
        return self._ledger.accept(conn, held)

    def _accepted(self, held: Held) -> Accepted:
        attempt, job = held.attempt, held.job
        return Accepted(
            lease=Lease(epoch=attempt.epoch, ttl=self._ledger.settings.worker.lease_ttl_s),
            spec=job.spec,
            job_id=job.id,
            job_name=job.name,
            attempt=attempt.ordinal,
            limits=job.wanted_limits(),
            inputs=job.wanted_files(),
            resume_from=job.resume_point(),
        )

    async def _write(self, caller: Caller, act: Callable[[Connection, AnyRow], T]) -> T:
        def write(conn: Connection) -> T:
            row = assert_worker_live(conn, caller.worker_id, caller.session_id)
            return act(conn, row)

        return await self._db.write(write)


def _check_repeat(held: Held, epoch: int) -> None:
    """Refuse an accept that is not the repetition of one that was granted."""
    state = held.attempt.state
    if state in LIVE_ATTEMPT_STATES and epoch == held.attempt.epoch == held.job.epoch:
        return
    if held.job.state in ("canceled", "canceling"):
        raise problem("job-canceled", "the job was cancelled")
    if state in ("withdrawn", "revoked"):
        raise problem("offer-expired", "the offer was withdrawn")
    raise problem("lease-superseded", f"the attempt is {state}; the job goes on without it")


def _repeated(held: Held, digest: str) -> Recorded:
    if held.attempt.completion_sha256 != digest:
        raise problem("already-completed", f"the attempt was recorded as {held.attempt.recorded} from another report")
    return Recorded(recorded=cast(Outcome, held.attempt.recorded))


def _check_everything_arrived(conn: Connection, held: Held, body: Completion) -> None:
    next_seq = held.attempt.next_seq
    if next_seq < body.final_seq:
        raise problem("events-missing", f"{body.final_seq - next_seq} events have not arrived", next_seq=next_seq)
    if next_seq > body.final_seq:
        raise problem("invalid-request", f"final_seq is {body.final_seq}, but {next_seq} events have arrived")
    excused = {lost.sha256 for lost in body.missing}
    missing = sorted(set(body.artifacts) - excused - ready_contents(conn, held.attempt.id))
    if missing:
        raise problem("artifacts-missing", f"{len(missing)} artifacts have not arrived", missing=tuple(missing))
