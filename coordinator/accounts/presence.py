"""When each worker was last heard of and what it said: kept in memory, written down once a second.

A poll costs no write of its own. What a crash loses is at most a second of contact times, never a decision.
"""

from msgspec import structs
from sqlalchemy import Connection, bindparam, select, update

from coordinator.clock import Clock
from coordinator.storage.database import Database
from coordinator.storage.schema import worker
from worker_core.wire.codec import Message, decode, encode
from worker_core.wire.session import Health, Observed
from worker_core.wire.vocabulary import Mode, Reason, Word
from worker_core.wire.work import OutboxSize

DAY_S = 86400.0
SLEEP_S = 600.0
"""A silence this long counts as sleep: what follows is judged from the waking on."""
MAX_GAPS = 100


class Gap(Message):
    """A silence longer than contact may pause."""

    ended_at: float
    seconds: float
    announced: bool = False
    """The worker had said goodbye."""

    @property
    def slept(self) -> bool:
        """Whether it was asleep or off meanwhile, which is no fault."""
        return self.announced or self.seconds >= SLEEP_S


class Contact(Message):
    """The last a worker said, and when."""

    at: float
    since: float
    """Start of the first connection."""
    state: Word = "connecting"
    reasons: tuple[Reason, ...] = ()
    local_mode: Mode = "run"
    observed: Observed = Observed()
    health: Health = Health()
    outbox: OutboxSize = OutboxSize()
    held_gpus: tuple[str, ...] = ()
    """UUIDs of GPUs that no job may be given."""
    gone: bool = False
    """The worker said goodbye."""
    gaps: tuple[Gap, ...] = ()

    def share(self, now: float) -> float:
        """Return the share of expected contact kept in the last day, or since it woke if that is better."""
        woke = max((gap.ended_at for gap in self.gaps if gap.slept), default=self.since)
        return max(self._share_since(start, now) for start in (max(self.since, now - DAY_S), max(woke, now - DAY_S)))

    def _share_since(self, start: float, now: float) -> float:
        span = now - start
        if span <= 0:
            return 1.0
        missed = sum(min(gap.seconds, gap.ended_at - start) for gap in self.gaps if gap.ended_at > start)
        return 1.0 - missed / span


class Presence:
    """Contacts of all workers."""

    def __init__(self, db: Database, clock: Clock, stale_s: float) -> None:
        self._db = db
        self._clock = clock
        self._stale_s = stale_s
        self._contacts: dict[str, Contact] = {}
        self._dirty: set[str] = set()

    async def load(self) -> None:
        """Read what was known before a restart; a contact of the future is of a clock that was wrong."""
        now = self._clock.now()
        query = select(worker.c.id, worker.c.contact).where(worker.c.contact.is_not(None))
        for row in await self._db.read(lambda conn: conn.execute(query).all()):
            contact = decode(row.contact, Contact)
            known = structs.replace(contact, at=min(contact.at, now), since=min(contact.since, now))
            self._contacts[row.id] = known

    def of(self, worker_id: str) -> Contact | None:
        """Return the last contact."""
        return self._contacts.get(worker_id)

    def age_s(self, worker_id: str) -> float | None:
        """Return the seconds since the last contact."""
        contact = self._contacts.get(worker_id)
        return None if contact is None else max(0.0, self._clock.now() - contact.at)

    def is_silent(self, worker_id: str) -> bool:
        """Tell whether a worker said goodbye or has not been heard of for too long."""
        contact = self._contacts.get(worker_id)
        return contact is None or contact.gone or self._clock.now() - contact.at > self._stale_s

    def begin(
        self,
        worker_id: str,
        *,
        state: str,
        reasons: tuple[Reason, ...],
        local_mode: Mode,
        observed: Observed,
    ) -> None:
        """Note the start of a new connection; the silences before it still count, the time after a goodbye does not."""
        before, now = self._contacts.get(worker_id), self._clock.now()
        self._set(
            worker_id,
            Contact(
                at=now,
                since=before.since if before else now,
                state=state,
                reasons=reasons,
                local_mode=local_mode,
                observed=observed,
                gaps=self._gaps(before, now),
            ),
        )

    def note(
        self,
        worker_id: str,
        *,
        state: str,
        reasons: tuple[Reason, ...],
        local_mode: Mode,
        observed: Observed,
        health: Health | None = None,
        outbox: OutboxSize | None = None,
        held_gpus: tuple[str, ...] | None = None,
    ) -> None:
        """Note what a poll or heartbeat said."""
        before = self._contacts.get(worker_id)
        now = self._clock.now()
        self._set(
            worker_id,
            Contact(
                at=now,
                since=before.since if before else now,
                state=state,
                reasons=reasons,
                local_mode=local_mode,
                observed=observed,
                health=health or (before.health if before else Health()),
                outbox=outbox or (before.outbox if before else OutboxSize()),
                held_gpus=held_gpus if held_gpus is not None else before.held_gpus if before else (),
                gaps=self._gaps(before, now),
            ),
        )

    def touch(self, worker_id: str) -> None:
        """Note a request that says nothing about the worker's state."""
        before = self._contacts.get(worker_id)
        if before is not None:
            now = self._clock.now()
            self._set(worker_id, structs.replace(before, at=now, gone=False, gaps=self._gaps(before, now)))

    def leave(self, worker_id: str) -> None:
        """Note a goodbye."""
        before = self._contacts.get(worker_id)
        if before is not None:
            self._set(worker_id, structs.replace(before, at=self._clock.now(), gone=True))

    async def flush(self) -> None:
        """Write down what changed."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, set()
        rows = [
            {"key": worker_id, "at": contact.at, "text": encode(contact).decode()}
            for worker_id in dirty
            if (contact := self._contacts.get(worker_id)) is not None
        ]
        change = (
            update(worker)
            .where(worker.c.id == bindparam("key"))
            .values(contact_at=bindparam("at"), contact=bindparam("text"))
        )

        def write(conn: Connection) -> None:
            conn.execute(change, rows)

        try:
            await self._db.write(write)
        except Exception:
            self._dirty |= dirty
            raise

    def _set(self, worker_id: str, contact: Contact) -> None:
        self._contacts[worker_id] = contact
        self._dirty.add(worker_id)

    def _gaps(self, before: Contact | None, now: float) -> tuple[Gap, ...]:
        if before is None:
            return ()
        recent = tuple(gap for gap in before.gaps if gap.ended_at > now - DAY_S)
        silence = now - before.at
        if silence <= self._stale_s:
            return recent
        return (*recent, Gap(ended_at=now, seconds=silence, announced=before.gone))[-MAX_GAPS:]
