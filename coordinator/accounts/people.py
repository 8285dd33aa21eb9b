"""People: accounts with passwords, and API tokens for their scripts."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import Connection, delete, func, insert, select, update

from coordinator.accounts.audit import HOST, record
from coordinator.accounts.networks import counted_address, network_of
from coordinator.accounts.rates import RateBook
from coordinator.accounts.secrets import hash_secret, new_secret
from coordinator.clock import Clock
from coordinator.errors import HostError
from coordinator.settings import Settings
from coordinator.storage.database import AnyRow, Database
from coordinator.storage.schema import account, api_token, login
from worker_core.wire.codec import BadMessage, convert
from worker_core.wire.ids import new_id
from worker_core.wire.pairing import Email
from worker_core.wire.problems import problem

SCOPES: tuple[str, ...] = ("jobs", "workers", "approve")
LOGIN_SCOPES: tuple[str, ...] = ("jobs", "workers")
"""What a token got by password may do; only tokens made on the coordinator's host also approve."""

MAX_EMAIL_LENGTH = 254
MIN_PASSWORD_LENGTH = 8
MAX_PASSWORD_LENGTH = 1024
EVERYWHERE = 10
"""How many times as many tries one e-mail has from all networks together."""
_HASHINGS_AT_ONCE = 2
HASH_OF_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$X1c4DxWmSBfWSj0mYM0CCA$VViOSFpWybTOOa1wL2aeyvXSeyyeT4y22GOy0ucunlc"
"""What the password given with an unknown e-mail is compared with, so that the answer takes as long as any."""


@dataclass(frozen=True)
class Account:
    """One person's account."""

    id: str
    email: str


@dataclass(frozen=True)
class Person:
    """Who makes a request, how they proved it, and what they may do."""

    account_id: str
    email: str
    scopes: frozenset[str]
    via: Literal["cookie", "token"]
    csrf: str = ""
    """The token that forms of this log-in carry; empty for API tokens."""
    secret_hash: str = ""
    """The hash of the cookie or token that was sent."""
    stepped_up: bool = False
    """The password was entered at most five minutes ago, or the token's scope counts as that."""


class BadAccount(HostError):
    """An account cannot be made like this; the text says why."""


class People:
    """Accounts, passwords and API tokens."""

    def __init__(self, db: Database, clock: Clock, settings: Settings, rates: RateBook) -> None:
        self._db = db
        self._clock = clock
        self._hasher = PasswordHasher()
        self._hashing = asyncio.Semaphore(_HASHINGS_AT_ONCE)
        # From one network few tries; from everywhere more, so that a stranger cannot lock the owner out with ten.
        per_email, window_s = settings.logins_per_email, settings.logins_window_s
        self._by_email_network = rates.limit("log-in by e-mail and network", per_email, window_s)
        self._by_email = rates.limit("log-in by e-mail", per_email * EVERYWHERE, window_s)
        self._by_ip = rates.limit("log-in by address", settings.logins_per_ip, window_s)

    async def add(self, email: str, password: str) -> Account:
        """Make an account; raises :class:`BadAccount`."""
        address = checked_email(email)
        hashed = await self._hash(checked_password(password))
        now = self._clock.now()
        return await self._db.write(lambda conn: insert_account(conn, address, hashed, now))

    async def set_password(self, email: str, password: str) -> None:
        """Give an account another password; raises :class:`BadAccount`."""
        hashed, now = await self._hash(checked_password(password)), self._clock.now()
        await self._db.write(lambda conn: replace_password(conn, email, hashed, now))

    async def count(self) -> int:
        """Return how many accounts there are."""
        query = select(func.count()).select_from(account)
        return await self._db.read(lambda conn: conn.execute(query).scalar_one())

    async def authenticate(self, email: str, password: str, ip: str) -> Account:
        """Return whose e-mail and password these are.

        An unknown e-mail takes as long as a wrong password and is answered alike.
        """
        # Nobody's is longer, and what is counted must not be endless.
        address = email.strip().lower()[:MAX_EMAIL_LENGTH]
        detail = "too many tries; wait and try again"
        source = f"{address} {network_of(ip)}"
        tries = ((self._by_email_network, source), (self._by_email, address), (self._by_ip, counted_address(ip)))
        for limit, key in tries:
            limit.check(key, detail)
        for limit, key in tries:
            limit.mark(key)
        row = await self._db.read(lambda conn: conn.execute(select(account).where(account.c.email == address)).first())
        expected = row.password_hash if row is not None else HASH_OF_NOBODY
        matches = await self._verify(expected, password)
        if row is None or not matches:
            raise problem("bad-credentials", "e-mail or password is wrong")
        for limit, key in tries:
            limit.unmark(key)
        return Account(row.id, row.email)

    async def add_token(self, email: str, name: str, scopes: Iterable[str]) -> str:
        """Make an API token of an account and return it; it is never shown again. Raises :class:`BadAccount`."""
        now = self._clock.now()
        chosen = tuple(scopes)
        return await self._db.write(lambda conn: insert_token(conn, email, name, chosen, now))

    async def person_of_token(self, token: str) -> Person:
        """Return whose API token this is; raises ``not-signed-in``."""
        row = await self._db.read(lambda conn: _find_token(conn, token))
        if row is None:
            raise problem("not-signed-in", "the API token is not known; make one with: stoker-coordinator token add")
        scopes = frozenset(cast("list[str]", json.loads(row.scopes)))
        return Person(
            row.account_id,
            row.email,
            scopes,
            "token",
            secret_hash=hash_secret(token),
            stepped_up="approve" in scopes,
        )

    async def end_token(self, person: Person) -> None:
        """Forget the API token that a person came with."""
        ending = delete(api_token).where(api_token.c.token_hash == person.secret_hash)
        await self._db.write(lambda conn: conn.execute(ending).rowcount)

    async def _hash(self, password: str) -> str:
        async with self._hashing:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def _verify(self, expected: str, password: str) -> bool:
        async with self._hashing:
            return await asyncio.to_thread(self._matches, expected, password[:MAX_PASSWORD_LENGTH])

    def _matches(self, expected: str, password: str) -> bool:
        try:
            return self._hasher.verify(expected, password)
        except (VerificationError, InvalidHashError):
            return False


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, for commands without an event loop."""
    return PasswordHasher().hash(checked_password(password))


def checked_email(email: str) -> str:
    """Return an e-mail address as we keep it; raises :class:`BadAccount`."""
    address = email.strip().lower()
    try:
        return convert(address, cast("type[str]", Email))
    except BadMessage as error:
        raise BadAccount(f"{email!r} is not an e-mail address") from error


def checked_password(password: str) -> str:
    """Return the password if it can be one; raises :class:`BadAccount`."""
    if not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise BadAccount(f"a password has {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters")
    return password


def insert_account(conn: Connection, email: str, password_hash: str, now: float) -> Account:
    """Write an account; raises :class:`BadAccount` when the e-mail has one."""
    if conn.execute(select(account.c.id).where(account.c.email == email)).first() is not None:
        raise BadAccount(f"{email} has an account already")
    made = Account(new_id("acc"), email)
    conn.execute(insert(account).values(id=made.id, email=email, password_hash=password_hash, created_at=now))
    return made


def replace_password(conn: Connection, email: str, password_hash: str, now: float) -> None:
    """Write another password and end whatever the old one opened; raises :class:`BadAccount`."""
    row = _account_of(conn, email)
    conn.execute(update(account).where(account.c.id == row.id).values(password_hash=password_hash))
    conn.execute(delete(login).where(login.c.account_id == row.id))
    # Tokens with the scope approve were made on the host; all others were got by the password.
    held = conn.execute(select(api_token.c.id, api_token.c.scopes).where(api_token.c.account_id == row.id)).all()
    by_password = [token.id for token in held if "approve" not in json.loads(token.scopes)]
    conn.execute(delete(api_token).where(api_token.c.id.in_(by_password)))
    record(conn, row.id, now, HOST, "password changed", row.id, row.email, "all log-ins ended")


def insert_token(conn: Connection, email: str, name: str, scopes: tuple[str, ...], now: float) -> str:
    """Write an API token and return it; raises :class:`BadAccount` when nobody has this e-mail."""
    row = _account_of(conn, email)
    token = new_secret()
    conn.execute(
        insert(api_token).values(
            id=new_id("tok"),
            account_id=row.id,
            token_hash=hash_secret(token),
            name=name[:100],
            scopes=json.dumps(scopes),
            created_at=now,
        )
    )
    return token


def _account_of(conn: Connection, email: str) -> AnyRow:
    row = conn.execute(select(account).where(account.c.email == email.strip().lower())).first()
    if row is None:
        raise BadAccount(f"{email} has no account; make one with: stoker-coordinator account add {email}")
    return row


def _find_token(conn: Connection, token: str) -> AnyRow | None:
    return conn.execute(
        select(api_token.c.account_id, api_token.c.scopes, account.c.email)
        .join(account, account.c.id == api_token.c.account_id)
        .where(api_token.c.token_hash == hash_secret(token))
    ).first()
