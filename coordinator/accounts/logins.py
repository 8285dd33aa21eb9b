"""Log-ins of the console: a random cookie, a CSRF token, and when the password was last entered."""

from sqlalchemy import Connection, delete, insert, select, update

from coordinator.accounts.people import SCOPES, Account, People, Person
from coordinator.accounts.secrets import hash_secret, new_secret
from coordinator.clock import Clock
from coordinator.settings import Settings
from coordinator.storage.database import Database
from coordinator.storage.schema import account, login


class Logins:
    """Who is logged in with which cookie."""

    def __init__(self, db: Database, clock: Clock, settings: Settings, people: People) -> None:
        self._db = db
        self._clock = clock
        self._settings = settings
        self._people = people

    async def start(self, owner: Account) -> str:
        """Log an account in and return the cookie's value; the password counts as just entered."""
        cookie = new_secret()
        now = self._clock.now()

        def write(conn: Connection) -> None:
            conn.execute(delete(login).where(login.c.expires_at <= now))
            conn.execute(
                insert(login).values(
                    cookie_hash=hash_secret(cookie),
                    account_id=owner.id,
                    csrf=new_secret(),
                    created_at=now,
                    expires_at=now + self._settings.login_s,
                    stepped_up_at=now,
                )
            )

        await self._db.write(write)
        return cookie

    async def person(self, cookie: str) -> Person | None:
        """Return who is logged in with this cookie."""
        now = self._clock.now()
        query = (
            select(login, account.c.email)
            .join(account, account.c.id == login.c.account_id)
            .where(login.c.cookie_hash == hash_secret(cookie), login.c.expires_at > now)
        )
        row = await self._db.read(lambda conn: conn.execute(query).first())
        if row is None:
            return None
        return Person(
            row.account_id,
            row.email,
            frozenset(SCOPES),
            "cookie",
            csrf=row.csrf,
            secret_hash=row.cookie_hash,
            stepped_up=now - row.stepped_up_at <= self._settings.step_up_s,
        )

    async def step_up(self, person: Person, password: str, ip: str) -> None:
        """Take the password again for what needs it fresh; raises ``bad-credentials`` or ``rate-limited``."""
        await self._people.authenticate(person.email, password, ip)
        now = self._clock.now()
        change = update(login).where(login.c.cookie_hash == person.secret_hash).values(stepped_up_at=now)
        await self._db.write(lambda conn: conn.execute(change).rowcount)

    async def end(self, person: Person) -> None:
        """Log out."""
        ending = delete(login).where(login.c.cookie_hash == person.secret_hash)
        await self._db.write(lambda conn: conn.execute(ending).rowcount)
