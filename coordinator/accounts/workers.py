"""What a person sees of and does with their workers: list, modes, renewal, revocation."""

import asyncio
import json
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, Update, delete, or_, select, update

from coordinator.accounts.audit import WORKSTATION, Act, record
from coordinator.accounts.authorization import assert_worker_live, authorization_of, hard_cap_at, held_back
from coordinator.accounts.conflicts import conflict_of
from coordinator.accounts.ground import Ground
from coordinator.accounts.health import unhealthy_reasons
from coordinator.accounts.people import Person
from coordinator.accounts.presence import Contact, Presence
from coordinator.accounts.shown_state import shown_state
from coordinator.clock import rfc3339
from coordinator.storage.database import AnyRow, after_commit
from coordinator.storage.identity_log import append_entry
from coordinator.storage.schema import session, worker, worker_token
from worker_core.wire.client import WorkerPatch, WorkerView
from worker_core.wire.codec import decode
from worker_core.wire.pairing import Host
from worker_core.wire.problems import ProblemError, problem
from worker_core.wire.session import ExtendAnswer, Health, Observed
from worker_core.wire.signed import Revocation
from worker_core.wire.vocabulary import Mode, Reason

MODE_ACTS: dict[Mode, Act] = {"run": "resumed", "drain": "drained", "stop": "stopped"}
REMOVABLE_AFTER_S = 7 * 86400.0


class Workers:
    """The workers of all accounts."""

    def __init__(self, ground: Ground, presence: Presence, data: Path) -> None:
        self._db = ground.db
        self._clock = ground.clock
        self._settings = ground.settings
        self._keys = ground.keys
        self._generation = ground.generation
        self._presence = presence
        self._work = ground.work
        self._data = data

    async def list(self, account_id: str) -> list[WorkerView]:
        """Return an account's workers by name, without the removed ones."""
        query = (
            select(worker)
            .where(worker.c.account_id == account_id, worker.c.removed_at.is_(None))
            .order_by(worker.c.name, worker.c.created_at)
        )
        return await self._db.read(lambda conn: [self.view(conn, row) for row in conn.execute(query)])

    async def get(self, account_id: str, worker_id: str) -> WorkerView:
        """Return one worker, by id or by name."""
        return await self._db.read(lambda conn: self.view(conn, find_worker(conn, account_id, worker_id)))

    async def patch(self, person: Person, worker_id: str, changes: WorkerPatch, rev: int) -> WorkerView:
        """Change name, job scopes or the extend mark of the revision that the person saw."""

        def write(conn: Connection) -> WorkerView:
            row = _usable(find_worker(conn, person.account_id, worker_id))
            if row.rev != rev:
                raise problem("changed-meanwhile", f"{row.name} changed meanwhile; look at it again")
            values: dict[str, object] = {"person_acted_at": self._clock.now()}
            if changes.name is not None:
                check_name_free(conn, person.account_id, changes.name, row.id)
                values["name"] = changes.name
            if changes.job_scopes is not None:
                values["job_scopes"] = json.dumps(checked_scopes(changes.job_scopes))
            if changes.extend_while_healthy is not None:
                values["extend_while_healthy"] = changes.extend_while_healthy
            told = ", ".join(name for name in values if name != "person_acted_at")
            record(conn, row.account_id, self._clock.now(), person.email, "changed", row.id, row.name, told)
            return self._change(conn, row, values)

        return await self._db.write(write)

    async def set_mode(self, person: Person, worker_id: str, mode: Mode, reason: str = "") -> WorkerView:
        """Set what the console wants of a worker."""
        now = self._clock.now()

        def write(conn: Connection) -> WorkerView:
            row = _usable(find_worker(conn, person.account_id, worker_id))
            if row.console_mode == mode:
                return self.view(conn, row)
            record(conn, row.account_id, now, person.email, MODE_ACTS[mode], row.id, row.name, reason)
            values = {"console_mode": mode, "mode_by": person.email, "mode_reason": reason[:500], "mode_at": now}
            return self._change(conn, row, {**values, "person_acted_at": now})

        return await self._db.write(write)

    async def renew(self, person: Person, worker_id: str, length_s: float | None = None) -> WorkerView:
        """Authorize a worker anew from now on, for the length chosen before unless another is given."""
        now = self._clock.now()

        def write(conn: Connection) -> WorkerView:
            row = _usable(find_worker(conn, person.account_id, worker_id))
            length = length_s or row.auth_length_s
            cap = now + row.hard_cap_s if row.hard_cap_s is not None else now + length
            values = {"auth_length_s": length, "auth_expires_at": min(now + length, cap)}
            detail = f"until {rfc3339(values['auth_expires_at'])}"
            record(conn, row.account_id, now, person.email, "renewed", row.id, row.name, detail)
            return self._change(conn, row, {**values, "person_acted_at": now, "renewal_asked_at": None})

        return await self._db.write(write)

    async def revoke(self, person: Person, worker_id: str, reason: str = "") -> WorkerView:
        """End a worker for good; when this returns, nothing of it is accepted any more."""
        row = await self._db.read(lambda conn: find_worker(conn, person.account_id, worker_id))
        await self._revoke(row, person.email, reason)
        return await self.get(person.account_id, row.id)

    async def revoke_itself(self, worker_id: str) -> None:
        """Let a worker unpair itself (S7)."""
        query = select(worker).where(worker.c.id == worker_id)
        await self._revoke(await self._db.read(lambda conn: conn.execute(query).one()), WORKSTATION, "unpaired")

    async def remove(self, person: Person, worker_id: str) -> None:
        """Take a worker off the list: a revoked one, or one unheard of for a week (which revokes it)."""
        row = await self._db.read(lambda conn: find_worker(conn, person.account_id, worker_id))
        if row.revoked_at is None:
            age_s = self._presence.age_s(row.id)
            if age_s is not None and age_s < REMOVABLE_AFTER_S:
                raise problem("wrong-state", f"{row.name} was seen within 7 days; revoke it first")
            await self._revoke(row, person.email, "removed")
        now = self._clock.now()

        def write(conn: Connection) -> None:
            conn.execute(_of(row).values(removed_at=now))
            record(conn, row.account_id, now, person.email, "removed", row.id, row.name)
            self._work.record_change(conn, row.account_id, "worker", row.id)

        await self._db.write(write)

    async def extend(self, worker_id: str, session_id: str, health: Health) -> ExtendAnswer:
        """Extend an authorization whose worker asks for it and is healthy by our own evidence (S4)."""
        outcome = await self._db.write(lambda conn: self._extend(conn, worker_id, session_id, health))
        if isinstance(outcome, ProblemError):
            raise outcome
        return outcome

    def view(self, conn: Connection, row: AnyRow) -> WorkerView:
        """Return how a worker is shown; its state is worked out here, from what is known this moment."""
        now = self._clock.now()
        contact = self._presence.of(row.id)
        job = self._work.current_job(conn, row.id)
        observed = contact.observed if contact else Observed()
        silent = self._presence.is_silent(row.id)
        conflict = conflict_of(row)
        return WorkerView(
            id=row.id,
            name=row.name,
            state=shown_state(row, contact, silent=silent, now=now),
            reasons=_reasons(row, contact if not silent else None),
            console_mode=row.console_mode,
            local_mode=contact.local_mode if contact else "run",
            mode_by=row.mode_by,
            mode_since_s=None if row.mode_at is None else max(0.0, now - row.mode_at),
            mode_seen=observed.gen == self._generation and observed.rev == row.rev,
            contact_age_s=self._presence.age_s(row.id),
            authorization=authorization_of(row, now),
            job_scopes=tuple(cast("list[str]", json.loads(row.job_scopes))),
            host=decode(row.host, Host),
            version=row.version,
            credential_store=row.credential_store,
            job=job,
            rev=row.rev,
            approved_by=row.approved_by,
            conflict=conflict.words if conflict is not None and row.revoked_at is None else None,
            rekeying=row.rekey_at is not None,
            confirm_needed=row.confirm_at is not None and row.revoked_at is None,
        )

    def _change(self, conn: Connection, row: AnyRow, values: dict[str, object]) -> WorkerView:
        change = _of(row).where(worker.c.revoked_at.is_(None)).values(rev=worker.c.rev + 1, **values)
        if conn.execute(change).rowcount != 1:
            raise problem("wrong-state", f"{row.name} was revoked")
        self._work.record_change(conn, row.account_id, "worker", row.id)
        after_commit(conn, lambda: self._work.wake_worker(row.id))
        return self.view(conn, conn.execute(select(worker).where(worker.c.id == row.id)).one())

    async def _revoke(self, row: AnyRow, by: str, reason: str) -> None:
        if row.revoked_at is not None:
            return
        now = self._clock.now()
        revocation = Revocation(
            worker_id=row.id,
            thumbprint=row.thumbprint,
            gen=self._generation,
            revoked_at=rfc3339(now),
            by=by,
            reason=reason[:500],
        )
        signed = self._keys.sign(revocation)
        # The log outlives a database that is restored from a backup, so it is written first.
        await asyncio.to_thread(append_entry, self._data, revocation)

        def write(conn: Connection) -> None:
            change = _of(row).where(worker.c.revoked_at.is_(None))
            values = {"revoked_at": now, "revocation": signed, "session_id": None, "rev": worker.c.rev + 1}
            if conn.execute(change.values(**values)).rowcount != 1:
                return
            conn.execute(delete(worker_token).where(worker_token.c.worker_id == row.id))
            ending = update(session).where(session.c.worker_id == row.id, session.c.ended_at.is_(None))
            conn.execute(ending.values(ended_at=now, end_reason="revoked"))
            self._work.fence_worker(conn, row.id)
            record(conn, row.account_id, now, by, "revoked", row.id, row.name, reason)
            self._work.record_change(conn, row.account_id, "worker", row.id)
            after_commit(conn, lambda: self._work.wake_worker(row.id))

        await self._db.write(write)

    def _extend(self, conn: Connection, worker_id: str, session_id: str, health: Health) -> ExtendAnswer | ProblemError:
        now = self._clock.now()
        row = assert_worker_live(conn, worker_id, session_id)
        refusals = self._refusals(conn, row, health, now)
        if refusals:
            return ExtendAnswer(authorization=authorization_of(row, now), extended=False, reasons=tuple(refusals))
        cap = hard_cap_at(row)
        until = now + row.auth_length_s if cap is None else min(now + row.auth_length_s, cap)
        if until <= row.auth_expires_at:
            # The person's list shows the wish, so it is kept although the answer is no.
            conn.execute(_of(row).values(renewal_asked_at=now))
            self._work.record_change(conn, row.account_id, "worker", row.id)
            return problem("hard-cap-reached", f"a person must renew {row.name}; it extends itself no further")
        change = _of(row).where(worker.c.revoked_at.is_(None), worker.c.auth_expires_at > now)
        conn.execute(change.values(auth_expires_at=until, extended_at=now, rev=worker.c.rev + 1))
        record(conn, row.account_id, now, row.name, "extended", row.id, row.name, f"until {rfc3339(until)}")
        self._work.record_change(conn, row.account_id, "worker", row.id)
        extended = conn.execute(select(worker).where(worker.c.id == worker_id)).one()
        return ExtendAnswer(authorization=authorization_of(extended, now), extended=True)

    def _refusals(self, conn: Connection, row: AnyRow, health: Health, now: float) -> "list[str]":
        if row.auth_expires_at <= now:
            return ["it has expired; a person must renew it"]
        if not row.extend_while_healthy:
            return ["extending while healthy is off"]
        if row.auth_expires_at - now > row.auth_length_s * self._settings.worker.extend_below_share:
            return ["it is not due yet"]
        if row.extended_at is not None and now - row.extended_at < self._settings.extend_min_interval_s:
            return ["it was extended a short while ago"]
        if held_back(row):
            return ["a person must decide about it in the console first"]
        failures = self._work.recent_failures(conn, row.id, 3)
        return unhealthy_reasons(self._settings, self._presence.of(row.id), failures, health, row.version, now)


def _reasons(row: AnyRow, contact: Contact | None) -> tuple[Reason, ...]:
    """Return what the worker says of itself, and what it waits for from a person."""
    if row.revoked_at is not None:
        return tuple(contact.reasons if contact else ())
    ours = ("asks-for-renewal",) if row.renewal_asked_at is not None else ()
    ours = (held, *ours) if (held := held_back(row)) else ours
    return (*ours, *(reason for reason in (contact.reasons if contact else ()) if reason not in ours))


def find_worker(conn: Connection, account_id: str, id_or_name: str) -> AnyRow:
    """Return an account's worker by id or by name (a living one before a revoked one of the same name)."""
    query = (
        select(worker)
        .where(
            worker.c.account_id == account_id,
            worker.c.removed_at.is_(None),
            or_(worker.c.id == id_or_name, worker.c.name == id_or_name),
        )
        .order_by(worker.c.id != id_or_name, worker.c.revoked_at.is_not(None), worker.c.created_at.desc())
    )
    row = conn.execute(query).first()
    if row is None:
        raise problem("not-found", f"no worker {id_or_name!r}")
    return row


def check_name_free(conn: Connection, account_id: str, name: str, but: str = "") -> None:
    """Refuse a name that another living worker of the account has, or that nobody could type again."""
    if not name.isprintable() or name != name.strip():
        raise problem("invalid-request", "a worker's name has printable characters and no blanks around it")
    query = select(worker.c.id).where(
        worker.c.account_id == account_id, worker.c.name == name, worker.c.revoked_at.is_(None), worker.c.id != but
    )
    if conn.execute(query).first() is not None:
        raise problem("name-taken", f"a worker named {name!r} exists; choose another name")


def checked_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Return job scopes (job kinds, or ``any``) in order and once each, or refuse them."""
    if len(scopes) > 20 or any(not 1 <= len(scope) <= 64 for scope in scopes):
        raise problem("invalid-request", "job_scopes holds at most 20 kinds of 1 to 64 characters, or any")
    return tuple(sorted(set(scopes)))


def _usable(row: AnyRow) -> AnyRow:
    if row.revoked_at is not None:
        raise problem("wrong-state", f"{row.name} was revoked; pair the workstation again")
    return row


def _of(row: AnyRow) -> Update:
    return update(worker).where(worker.c.id == row.id)
