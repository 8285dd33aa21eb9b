"""Connections of workers: which process may speak for a worker, and the tokens it speaks with."""

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from coordinator.accounts.authorization import assert_worker_live, ended_session, key_replaced, worker_revoked
from coordinator.accounts.clone_rules import Alarm, Late, Numbers, Same, Wait, judge
from coordinator.accounts.conflicts import newcomer_of, newest_session, note_knock, raise_alarm, standing_of
from coordinator.accounts.controls import control_of
from coordinator.accounts.ground import Ground
from coordinator.accounts.presence import Presence
from coordinator.accounts.secrets import hash_secret, new_secret
from coordinator.storage.database import AnyRow, after_commit
from coordinator.storage.schema import past_key, session, worker, worker_token
from worker_core.wire.codec import BadMessage, convert, encode
from worker_core.wire.ids import new_id
from worker_core.wire.pairing import Host
from worker_core.wire.problems import ProblemError, problem
from worker_core.wire.session import Observed, SessionRequest, SessionStarted, TokenIssued
from worker_core.wire.versions import installed_version, is_older

MOMENT_S = 0.001


@dataclass(frozen=True)
class Caller:
    """A worker behind a token."""

    worker_id: str
    session_id: str
    account_id: str


class Sessions:
    """The connections of all workers; one per worker may speak."""

    def __init__(self, ground: Ground, presence: Presence) -> None:
        self._db = ground.db
        self._clock = ground.clock
        self._settings = ground.settings
        self._generation = ground.generation
        self._presence = presence
        self._work = ground.work
        self._keys = ground.keys
        self._numbers = Numbers(late_s=ground.settings.worker.stale_s, knock_s=ground.settings.conflict_knock_s)

    async def worker_of_key(self, thumbprint: str) -> AnyRow:
        """Return the worker that a key belongs to; raises ``worker-unknown`` or the signed ``worker-revoked``."""
        return await self._db.read(lambda conn: _worker_of_key(conn, thumbprint))

    async def caller(self, thumbprint: str, token: str) -> Caller:
        """Return whose token this is, if the key fits and the connection is the worker's present one."""
        caller = await self._db.read(lambda conn: self._caller(conn, thumbprint, token))
        self._presence.touch(caller.worker_id)
        return caller

    async def connect(self, row: AnyRow, request: SessionRequest, ip: str = "") -> SessionStarted:
        """Open a connection, or answer the same one again (S1)."""
        if request.worker_id != row.id:
            raise problem("worker-unknown", "this key belongs to another worker")
        floor = self._settings.min_worker_version
        if is_older(request.version, floor) and not await self._db.read(
            lambda conn: self._work.sees_job_through(conn, row.id)
        ):
            raise problem("upgrade-required", f"this coordinator needs version {floor}")
        outcome = await self._db.write(lambda conn: self._connect(conn, row.id, request, ip))
        if isinstance(outcome, ProblemError):
            raise outcome
        return outcome

    async def new_token(self, row: AnyRow, session_id: str, ip: str = "") -> TokenIssued:
        """Give a connection a fresh token; the older one stays good for a minute (S2)."""

        def write(conn: Connection) -> TokenIssued | ProblemError:
            replaced = self._replaced_long_ago(conn, row.id, session_id)
            if replaced is not None:
                now, found = self._clock.now(), conn.execute(select(worker).where(worker.c.id == row.id)).one()
                return raise_alarm(conn, found, "replaced-start", replaced, ip, now, self._work)
            assert_worker_live(conn, row.id, session_id)
            self._belongs_to_now(conn, session_id)
            return TokenIssued(token=self._issue(conn, row.id, session_id), token_ttl=self._settings.token_ttl_s)

        outcome = await self._db.write(write)
        if isinstance(outcome, ProblemError):
            raise outcome
        return outcome

    async def beat_repeats(self, worker_id: str) -> None:
        """Note that a worker sent two heartbeats of one number: a running machine was copied."""
        now = self._clock.now()

        def write(conn: Connection) -> None:
            row = conn.execute(select(worker).where(worker.c.id == worker_id)).one()
            if row.revoked_at is None:
                raise_alarm(conn, row, "repeated-beat", "", "", now, self._work)

        await self._db.write(write)

    async def goodbye(self, caller: Caller, reason: str) -> None:
        """End a connection on the worker's wish (S3)."""
        now = self._clock.now()

        def write(conn: Connection) -> None:
            assert_worker_live(conn, caller.worker_id, caller.session_id)
            conn.execute(update(worker).where(worker.c.id == caller.worker_id).values(session_id=None))
            _end(conn, caller.session_id, now, reason[:200] or "goodbye")
            self._work.record_change(conn, caller.account_id, "worker", caller.worker_id)
            after_commit(conn, lambda: self._presence.leave(caller.worker_id))
            after_commit(conn, lambda: self._work.wake_worker(caller.worker_id))

        await self._db.write(write)

    def _caller(self, conn: Connection, thumbprint: str, token: str) -> Caller:
        row = _worker_of_key(conn, thumbprint)
        query = select(worker_token).where(worker_token.c.token_hash == hash_secret(token))
        held = conn.execute(query).first()
        if held is None or held.worker_id != row.id:
            raise problem("token-expired", "the token is not known")
        if held.session_id != row.session_id:
            raise ended_session(conn, held.session_id)
        if held.expires_at <= self._clock.now():
            raise problem("token-expired", "ask for a new token")
        return Caller(row.id, held.session_id, row.account_id)

    def _connect(
        self, conn: Connection, worker_id: str, request: SessionRequest, ip: str
    ) -> SessionStarted | ProblemError:
        now = self._clock.now()
        row = conn.execute(select(worker).where(worker.c.id == worker_id)).one()
        if row.revoked_at is not None:
            raise worker_revoked(row)
        session_id = self._take_over(conn, row, request, ip, now)
        if isinstance(session_id, ProblemError):
            return session_id
        conn.execute(update(worker).where(worker.c.id == worker_id).values(session_id=session_id, **_facts(request)))
        verdicts = self._work.held_verdicts(conn, worker_id, request.held)
        self._work.record_change(conn, row.account_id, "worker", worker_id)
        self._announce(conn, row, request, is_new=session_id != row.session_id)
        return SessionStarted(
            session_id=session_id,
            session_seq=request.session_seq,
            token=self._issue(conn, worker_id, session_id),
            token_ttl=self._settings.token_ttl_s,
            control=control_of(row, now, self._generation, self._keys),
            params=self._settings.worker,
            verdicts=verdicts,
            version=installed_version(),
        )

    def _take_over(
        self, conn: Connection, row: AnyRow, request: SessionRequest, ip: str, now: float
    ) -> str | ProblemError:
        """Return the connection's id: the present one for the same start, else a new one if the rules give it one."""
        newcomer = newcomer_of(request)
        alive = not self._presence.is_silent(row.id)
        standing = standing_of(conn, row, newcomer, alive=alive, generation=self._generation)
        present = newest_session(conn, row.id)
        match judge(standing, newcomer, now, self._numbers):
            case Same() if present is not None and present.ended_at is None:
                self._belongs_to_now(conn, present.id)
                return present.id
            case Late():
                return problem("session-replaced", "a newer start of this worker took over")
            case Wait(knock):
                note_knock(conn, row, knock)
                wait_s = self._settings.worker.stale_s - (self._presence.age_s(row.id) or 0.0)
                detail = f"{row.name} is connected already; try again when that connection has been silent"
                return problem("session-active", detail, retry_after_s=max(1.0, wait_s))
            case Alarm(rule):
                return raise_alarm(conn, row, rule, request.instance_id, ip, now, self._work)
            case _:
                return self._begin(conn, row, request, ip, now)

    def _belongs_to_now(self, conn: Connection, session_id: str) -> None:
        """A connection from before a restore goes on, so from here on a copy can be told from it again."""
        of_now = update(session).where(session.c.id == session_id, session.c.generation < self._generation)
        conn.execute(of_now.values(generation=self._generation))

    def _begin(self, conn: Connection, row: AnyRow, request: SessionRequest, ip: str, now: float) -> str:
        if row.session_id is not None:
            _end(conn, row.session_id, now, "replaced")
            after_commit(conn, lambda: self._work.wake_worker(row.id))
        note_knock(conn, row, None)
        newest = newest_session(conn, row.id)
        # A clock that was set back before this coordinator's start must not make an older connection the newest.
        begun_at = now if newest is None else max(now, newest.created_at + MOMENT_S)
        session_id = new_id("ses")
        conn.execute(
            insert(session).values(
                id=session_id,
                worker_id=row.id,
                instance_id=request.instance_id,
                boot_id=request.boot_id,
                session_seq=request.session_seq,
                previous=encode(request.prev_instance_ids).decode(),
                generation=self._generation,
                ip=ip,
                version=request.version,
                created_at=begun_at,
            )
        )
        return session_id

    def _replaced_long_ago(self, conn: Connection, worker_id: str, session_id: str) -> str | None:
        """Return the start of a connection that a newer start's replaced longer ago than any request can be late."""
        query = select(session).where(session.c.id == session_id, session.c.worker_id == worker_id)
        found = conn.execute(query).first()
        if found is None or found.end_reason != "replaced":
            return None
        newest = newest_session(conn, worker_id)
        same_start = newest is not None and newest.instance_id == found.instance_id
        late = self._clock.now() - found.ended_at <= self._numbers.late_s
        return None if same_start or late else found.instance_id

    def _announce(self, conn: Connection, row: AnyRow, request: SessionRequest, *, is_new: bool) -> None:
        note = self._presence.begin if is_new else self._presence.note

        def seen() -> None:
            # The control document travels in the answer, so it counts as seen once the worker says so itself.
            note(
                row.id,
                state=request.state,
                reasons=request.reasons,
                local_mode=request.local_mode,
                observed=Observed(),
            )

        after_commit(conn, seen)

    def _issue(self, conn: Connection, worker_id: str, session_id: str) -> str:
        now = self._clock.now()
        older = worker_token.c.session_id == session_id
        overlap = now + self._settings.token_overlap_s
        conn.execute(update(worker_token).where(older, worker_token.c.expires_at > overlap).values(expires_at=overlap))
        token = new_secret()
        conn.execute(
            insert(worker_token).values(
                token_hash=hash_secret(token),
                worker_id=worker_id,
                session_id=session_id,
                expires_at=now + self._settings.token_ttl_s,
            )
        )
        return token


def _worker_of_key(conn: Connection, thumbprint: str) -> AnyRow:
    row = conn.execute(select(worker).where(worker.c.thumbprint == thumbprint)).first()
    if row is None:
        past = conn.execute(select(past_key).where(past_key.c.thumbprint == thumbprint)).first()
        raise key_replaced(past) if past is not None else problem("worker-unknown", "no worker here has this key")
    if row.revoked_at is not None:
        raise worker_revoked(row)
    return row


def _end(conn: Connection, session_id: str, now: float, reason: str) -> None:
    ending = update(session).where(session.c.id == session_id, session.c.ended_at.is_(None))
    conn.execute(ending.values(ended_at=now, end_reason=reason))


def _facts(request: SessionRequest) -> dict[str, object]:
    """Return what a worker says about itself, as columns."""
    facts: dict[str, object] = {
        "version": request.version[:100],
        "capabilities": encode(request.capabilities).decode(),
        "credential_store": str(request.capabilities.get("credential_store", ""))[:50],
    }
    try:
        facts["host"] = encode(convert(request.capabilities["host"], Host)).decode()
    except (KeyError, BadMessage):
        # What was approved stays on show when a connection describes its host in another way.
        return facts
    return facts
