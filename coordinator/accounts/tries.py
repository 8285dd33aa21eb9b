"""Tries of pairing codes: counted before each look, taken back after a find, and told when there are too many."""

import logging

from coordinator.accounts.audit import COORDINATOR, Act, record
from coordinator.accounts.ground import Ground
from coordinator.accounts.networks import counted_address
from coordinator.accounts.people import Person
from coordinator.accounts.rates import RateBook, RateLimit

log = logging.getLogger(__name__)

HOUR_S = 3600.0
EVERYBODY = "everybody"
Tried = tuple[tuple[RateLimit, str], ...]


class CodeTries:
    """How many wrong codes a person, an account, an address and everybody together may still type."""

    def __init__(self, ground: Ground, rates: RateBook) -> None:
        settings = ground.settings
        self._db = ground.db
        self._clock = ground.clock
        self._work = ground.work
        self._by_person = rates.limit(
            "wrong codes by person", settings.wrong_codes, settings.wrong_codes_window_s, settings.wrong_codes_lock_s
        )
        self._by_account = rates.limit("wrong codes by account", settings.wrong_codes_per_account_hour, HOUR_S)
        self._by_ip = rates.limit("wrong codes by address", settings.wrong_codes_per_ip_hour, HOUR_S)
        self._by_all = rates.limit("wrong codes by everybody", settings.wrong_codes_global_hour, HOUR_S)

    def switched_off_s(self) -> float:
        """Return for how long nobody can pair, because too many wrong codes were tried; 0 while all is well."""
        return self._by_all.wait_s(EVERYBODY)

    def check_switched_on(self) -> None:
        """Raise ``rate-limited`` while nobody can pair."""
        self._by_all.check(EVERYBODY, "pairing is switched off for a while; too many wrong codes were tried")

    def begin(self, person: Person, ip: str) -> Tried:
        """Count a try, or refuse it: many looks at once must gain nothing."""
        self.check_switched_on()
        tried = self._limits(person, ip)
        for limit, key in tried:
            limit.check(key, "too many wrong codes; wait and try again")
        for limit, key in tried:
            limit.mark(key)
        return tried

    def was_right(self, tried: Tried) -> None:
        """Take a try back that found a pairing."""
        for limit, key in tried:
            limit.unmark(key)

    async def was_wrong(self, person: Person, ip: str) -> int:
        """Tell people when a limit was reached with this try; returns how many tries the person has left."""
        left = self._by_person.left(person.email)
        if left <= 0:
            detail = f"too many wrong codes were typed by {person.email}, last from {ip}"
            await self._tell(person, "codes locked", detail)
        if self._by_all.left(EVERYBODY) <= 0:
            minutes = self.switched_off_s() / 60
            detail = f"{self._by_all.limit} wrong codes within an hour; nobody can pair for {minutes:.0f} min"
            log.error("pairing is switched off: %s", detail)
            await self._tell(None, "pairing switched off", detail)
        return max(0, left)

    async def _tell(self, person: Person | None, act: Act, detail: str) -> None:
        now = self._clock.now()
        account_id = person.account_id if person is not None else None
        subject = person.email if person is not None else "pairing"
        await self._db.write(
            lambda conn: record(conn, account_id, now, COORDINATOR, act, "", subject, detail),
        )

    def _limits(self, person: Person, ip: str) -> Tried:
        return (
            (self._by_person, person.email),
            (self._by_account, person.account_id),
            (self._by_ip, counted_address(ip)),
            (self._by_all, EVERYBODY),
        )
