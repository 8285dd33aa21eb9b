"""Pairing: a workstation's key waits under a short code until a person types the code and approves it."""

import secrets

from sqlalchemy import Connection, func, insert, select, update

from coordinator.accounts.approvals import insert_worker
from coordinator.accounts.audit import record
from coordinator.accounts.authorization import authorization_of
from coordinator.accounts.ground import Ground
from coordinator.accounts.key_changes import check_new_key
from coordinator.accounts.keys import fingerprint_words
from coordinator.accounts.networks import counted_address, network_of
from coordinator.accounts.people import Person
from coordinator.accounts.rates import RateBook
from coordinator.accounts.secrets import hash_secret, new_secret
from coordinator.accounts.tries import CodeTries
from coordinator.accounts.workers import Workers
from coordinator.storage.database import AnyRow
from coordinator.storage.idempotency import Answer, idempotent
from coordinator.storage.schema import account, pairing, session, worker
from worker_core.wire.client import WorkerView
from worker_core.wire.codec import decode, encode
from worker_core.wire.ids import new_id
from worker_core.wire.pairing import (
    USER_CODE_ALPHABET,
    USER_CODE_LENGTH,
    BadUserCode,
    Host,
    PairingApproval,
    PairingApproved,
    PairingFound,
    PairingRequest,
    PairingStarted,
    normalise_user_code,
    show_user_code,
)
from worker_core.wire.problems import ProblemError, problem

HOUR_S = 3600.0
MAX_INTERVAL_S = 60.0
POLL_EARLY_S = 0.5
"""A poll this much too early is still on time: networks do not keep step."""


class Pairings:
    """All pairings, from a workstation's request to a person's decision."""

    def __init__(self, ground: Ground, workers: Workers, public_url: str, rates: RateBook) -> None:
        self._db = ground.db
        self._clock = ground.clock
        self._settings = ground.settings
        self._keys = ground.keys
        self._generation = ground.generation
        self._work = ground.work
        self._workers = workers
        self._public_url = public_url
        settings = ground.settings
        self._by_ip = rates.limit("pairing by address", settings.pairings_per_ip_hour, HOUR_S)
        self._by_email = rates.limit("pairing by e-mail and network", settings.pairings_per_email_network_hour, HOUR_S)
        self.tries = CodeTries(ground, rates)

    async def start(self, thumbprint: str, request: PairingRequest, ip: str) -> PairingStarted:
        """Give a key its codes (P1); whether the e-mail has an account is not looked at, so it cannot show."""
        self.tries.check_switched_on()
        email = request.email.strip().lower()
        source = f"{email} {network_of(ip)}"
        detail = "too many pairings were started from here; wait and try again"
        self._by_ip.check(counted_address(ip), detail)
        self._by_email.check(source, detail)
        self._by_ip.mark(counted_address(ip))
        self._by_email.mark(source)
        return await self._db.write(lambda conn: self._start(conn, thumbprint, request, email, ip))

    async def poll(self, thumbprint: str, device_code: str) -> PairingApproved:
        """Return the approval (P2), or raise what RFC 8628 says of a pairing that is not approved."""
        outcome = await self._db.write(lambda conn: self._poll(conn, thumbprint, device_code))
        if isinstance(outcome, ProblemError):
            raise outcome
        return outcome

    async def cancel(self, thumbprint: str, pairing_id: str) -> None:
        """End a pairing on the workstation's wish (P3)."""
        change = update(pairing).where(
            pairing.c.id == pairing_id, pairing.c.thumbprint == thumbprint, pairing.c.state == "pending"
        )
        ended = await self._db.write(lambda conn: conn.execute(change.values(state="canceled")).rowcount)
        if not ended:
            raise problem("not-found", "no such pairing waits")

    async def lookup(self, person: Person, typed: str, ip: str) -> PairingFound:
        """Return the pairing behind a typed code (P4), if it was made for this person's e-mail."""
        try:
            code = normalise_user_code(typed)
        except BadUserCode as error:
            raise problem("invalid-request", str(error)) from error
        # Counted before the look and taken back after a find, so that many looks at once gain nothing.
        tried = self.tries.begin(person, ip)
        found = await self._db.write(lambda conn: self._look_up(conn, person, code))
        if found is None:
            left = await self.tries.was_wrong(person, ip)
            raise problem("code-not-found", f"no pairing waits for this code; {_tries_words(left)}")
        self.tries.was_right(tried)
        return self._found(found, ip)

    async def found(self, person: Person, pairing_id: str, ip: str) -> PairingFound:
        """Return a pairing that was found by its code before."""
        row = await self._db.read(lambda conn: _of_person(conn, person, pairing_id))
        if row.state != "pending":
            raise problem("already-decided", "this pairing was decided or cancelled")
        return self._found(row, ip)

    async def approve(
        self, person: Person, pairing_id: str, approval: PairingApproval, key: str | None = None
    ) -> WorkerView:
        """Make a worker of a pairing (P5); the same ``key`` again answers the same."""
        if not approval.fingerprint_confirmed:
            raise problem("invalid-request", "compare the four words on both screens first (fingerprint_confirmed)")

        def write(conn: Connection) -> Answer:
            body = encode((pairing_id, approval))
            now = self._clock.now()
            return idempotent(
                conn,
                person.account_id,
                key,
                body,
                now,
                lambda: (200, self._approve(conn, person, pairing_id, approval)),
            )

        _, stored = await self._db.write(write)
        return decode(stored, WorkerView)

    async def deny(self, person: Person, pairing_id: str) -> None:
        """Refuse a pairing (P6)."""

        def write(conn: Connection) -> None:
            self._decide(conn, person, pairing_id, state="denied")

        await self._db.write(write)

    def _start(self, conn: Connection, thumbprint: str, request: PairingRequest, email: str, ip: str) -> PairingStarted:
        now = self._clock.now()
        check_new_key(conn, thumbprint)
        _cancel_pending_of(conn, thumbprint)
        self._check_pending(conn, email, ip, now)
        pairing_id, device_code, code = new_id("prg"), new_secret(), _free_code(conn)
        fingerprint = fingerprint_words(thumbprint, self._keys.thumbprint, pairing_id)
        conn.execute(
            insert(pairing).values(
                id=pairing_id,
                state="pending",
                email=email,
                ip=ip,
                network=network_of(ip),
                thumbprint=thumbprint,
                device_code_hash=hash_secret(device_code),
                user_code_hash=hash_secret(code),
                fingerprint=fingerprint,
                device_name=request.device_name or request.host.hostname[:64] or "worker",
                host=encode(request.host).decode(),
                worker_version=request.worker_version[:100],
                created_at=now,
                expires_at=now + self._settings.pairing_s,
                interval_s=self._settings.pairing_interval_s,
            )
        )
        return PairingStarted(
            pairing_id=pairing_id,
            device_code=device_code,
            user_code=show_user_code(code),
            verification_uri=f"{self._public_url}/pair",
            fingerprint=fingerprint,
            expires_in=self._settings.pairing_s,
            interval=self._settings.pairing_interval_s,
        )

    def _check_pending(self, conn: Connection, email: str, ip: str, now: float) -> None:
        query = select(func.count()).where(
            pairing.c.email == email,
            pairing.c.network == network_of(ip),
            pairing.c.state == "pending",
            pairing.c.expires_at > now,
        )
        if conn.execute(query).scalar_one() >= self._settings.pending_per_email_network:
            raise problem(
                "rate-limited", "several pairings of this e-mail wait already; decide or cancel one", retry_after_s=60.0
            )

    def _poll(self, conn: Connection, thumbprint: str, device_code: str) -> PairingApproved | ProblemError:
        now = self._clock.now()
        query = select(pairing).where(
            pairing.c.device_code_hash == hash_secret(device_code), pairing.c.thumbprint == thumbprint
        )
        row = conn.execute(query).first()
        if row is None or row.state == "canceled":
            return _undecided("expired_token", "no such pairing waits; start a new one")
        if row.state == "denied":
            return _undecided("access_denied", "a person refused this workstation")
        if row.state == "approved":
            return self._approved(conn, row, now)
        if row.expires_at <= now:
            return _undecided("expired_token", "the code has expired; start a new pairing")
        if row.polled_at is not None and now - row.polled_at < row.interval_s - POLL_EARLY_S:
            return self._slow_down(conn, row)
        # Only accepted polls count, or a client that is a little fast would never be heard again.
        conn.execute(update(pairing).where(pairing.c.id == row.id).values(polled_at=now))
        return _undecided("authorization_pending", "a person has not decided yet", interval=row.interval_s)

    def _slow_down(self, conn: Connection, row: AnyRow) -> ProblemError:
        interval_s = min(MAX_INTERVAL_S, row.interval_s + self._settings.pairing_interval_s)
        conn.execute(update(pairing).where(pairing.c.id == row.id).values(interval_s=interval_s))
        return _undecided("slow_down", f"ask every {interval_s:g} s", interval=interval_s)

    def _approved(self, conn: Connection, row: AnyRow, now: float) -> PairingApproved | ProblemError:
        connected = conn.execute(select(session.c.id).where(session.c.worker_id == row.worker_id)).first()
        if connected is not None or now - row.decided_at > self._settings.pairing_repeat_s:
            return _undecided("expired_token", "this approval was fetched before; start a new pairing")
        made = conn.execute(select(worker).where(worker.c.id == row.worker_id)).one()
        return PairingApproved(
            worker_id=made.id,
            worker_name=made.name,
            account=conn.execute(select(account.c.email).where(account.c.id == made.account_id)).scalar_one(),
            approved_by=row.approved_by,
            authorization=authorization_of(made, now),
            coordinator_jwks=self._keys.jwks(),
            gen=self._generation,
        )

    def _look_up(self, conn: Connection, person: Person, code: str) -> AnyRow | None:
        row = conn.execute(
            select(pairing).where(
                pairing.c.user_code_hash == hash_secret(code),
                pairing.c.email == person.email,
                pairing.c.state == "pending",
                pairing.c.expires_at > self._clock.now(),
            )
        ).first()
        if row is None:
            return None
        worn_out = row.lookups + 1 > self._settings.pairing_lookups
        change = {"state": "canceled"} if worn_out else {"lookups": row.lookups + 1}
        conn.execute(update(pairing).where(pairing.c.id == row.id).values(**change))
        return None if worn_out else row

    def _approve(self, conn: Connection, person: Person, pairing_id: str, approval: PairingApproval) -> bytes:
        now = self._clock.now()
        waiting = _of_person(conn, person, pairing_id)
        self._decide(conn, person, pairing_id, state="approved")
        made = insert_worker(conn, waiting, person, approval, now, self._settings.hard_cap_s)
        conn.execute(update(pairing).where(pairing.c.id == pairing_id).values(worker_id=made))
        self._work.record_change(conn, person.account_id, "worker", made)
        return encode(self._workers.view(conn, conn.execute(select(worker).where(worker.c.id == made)).one()))

    def _decide(self, conn: Connection, person: Person, pairing_id: str, *, state: str) -> None:
        """Move a waiting pairing to its end; of two decisions the first wins."""
        now = self._clock.now()
        change = update(pairing).where(
            pairing.c.id == pairing_id,
            pairing.c.email == person.email,
            pairing.c.state == "pending",
            pairing.c.expires_at > now,
        )
        values = {"state": state, "decided_at": now, "approved_by": person.email}
        if conn.execute(change.values(**values)).rowcount != 1:
            row = _of_person(conn, person, pairing_id)
            if row.state == "pending":
                raise problem("pairing-expired", "the code has expired; start a new pairing on the workstation")
            raise problem("already-decided", f"this pairing is {row.state} already")
        self._work.record_change(conn, person.account_id, "pairing", pairing_id)
        if state == "denied":
            row = _of_person(conn, person, pairing_id)
            record(conn, person.account_id, now, person.email, "denied", row.id, row.device_name, f"from {row.ip}")

    def _found(self, row: AnyRow, ip: str) -> PairingFound:
        return PairingFound(
            pairing_id=row.id,
            device_name=row.device_name,
            host=decode(row.host, Host),
            ip=row.ip,
            same_network=row.network == network_of(ip),
            age_s=self._clock.now() - row.created_at,
            fingerprint=row.fingerprint,
            worker_version=row.worker_version,
        )


def _tries_words(left: int) -> str:
    if left == 0:
        return "that was the last try for a while"
    return "1 try left" if left == 1 else f"{left} tries left"


def _undecided(error: str, detail: str, interval: float | None = None) -> ProblemError:
    code = "pairing-pending" if error in ("authorization_pending", "slow_down") else "invalid-request"
    return problem(code, detail, error=error, interval=interval)


def _of_person(conn: Connection, person: Person, pairing_id: str) -> AnyRow:
    query = select(pairing).where(pairing.c.id == pairing_id, pairing.c.email == person.email)
    row = conn.execute(query).first()
    if row is None:
        raise problem("not-found", "no such pairing")
    return row


def _cancel_pending_of(conn: Connection, thumbprint: str) -> None:
    earlier = update(pairing).where(pairing.c.thumbprint == thumbprint, pairing.c.state == "pending")
    conn.execute(earlier.values(state="canceled"))


def _free_code(conn: Connection) -> str:
    while True:
        code = "".join(secrets.choice(USER_CODE_ALPHABET) for _ in range(USER_CODE_LENGTH))
        query = select(pairing.c.id).where(pairing.c.user_code_hash == hash_secret(code), pairing.c.state == "pending")
        if conn.execute(query).first() is None:
            return code
