"""The connection of a worker to its coordinator: opened with what it holds, kept by fresh tokens.

The id of this start of the worker is on disk before it is sent, together with the ids before it that the coordinator
may or may not have seen; so a lost request or answer never makes an honest restart look like a copied disk.
"""

import asyncio
import random

import msgspec

from worker_core.journal.journal import Journal
from worker_core.link.backoff import Backoff, Sleep, may_help
from worker_core.link.client import CoordinatorClient
from worker_core.link.faults import LinkFault, TransportFault
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.wire.codec import Message, decode, encode
from worker_core.wire.ids import new_id
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import Parameters, SessionRequest, SessionStarted

_MAX_PREVIOUS = 32
_RETRY_TOKEN_CAP_S = 60.0
_NEVER_SENT = ("refused", "no-name", "clock-wrong")
"""Faults before the first byte of a request."""


class ConnectionRecord(Message):
    """What the worker keeps on disk about its connections."""

    session_seq: int = 0
    confirmed: str | None = None
    """Newest id of a start that the coordinator has answered."""
    unconfirmed: tuple[str, ...] = ()

    def announce(self, instance_id: str) -> "ConnectionRecord":
        """Note, before sending, that ``instance_id`` will be sent."""
        if instance_id == self.confirmed or instance_id in self.unconfirmed:
            return self
        return msgspec.structs.replace(self, unconfirmed=(*self.unconfirmed, instance_id)[-_MAX_PREVIOUS + 1 :])

    def withdraw(self, instance_id: str) -> "ConnectionRecord":
        """Note that ``instance_id`` was surely not sent, so that starts without a network fill no list."""
        left = tuple(known for known in self.unconfirmed if known != instance_id)
        return msgspec.structs.replace(self, unconfirmed=left)

    def confirm(self, instance_id: str, session_seq: int) -> "ConnectionRecord":
        """Note that the coordinator answered ``instance_id``."""
        return ConnectionRecord(session_seq=session_seq, confirmed=instance_id)

    def previous(self, instance_id: str) -> tuple[str, ...]:
        """Return the ids the coordinator may hold as current, other than ``instance_id``."""
        known = (*((self.confirmed,) if self.confirmed else ()), *self.unconfirmed)
        return tuple(known_id for known_id in known if known_id != instance_id)


_FACT = "connection"


def load_record(journal: Journal) -> ConnectionRecord:
    """Return what the journal holds about earlier connections."""
    text = journal.fact(_FACT)
    return decode(text, ConnectionRecord) if text else ConnectionRecord()


async def save_record(journal: Journal, record: ConnectionRecord) -> None:
    """Put the record on disk."""
    await journal.set_fact(_FACT, encode(record).decode())


class Connection:
    """One worker's connection, reopened as often as needed in the life of this process."""

    def __init__(self, client: CoordinatorClient, journal: Journal, sleep: Sleep = asyncio.sleep) -> None:
        self.instance_id = new_id("ins")
        self.session_id: str | None = None
        self.params = Parameters()
        self.coordinator_version = ""
        self._client = client
        self._journal = journal
        self._sleep = sleep
        self._refreshing: asyncio.Task[None] | None = None
        self._perhaps_seen = False
        """Whether the coordinator may have seen this start."""
        client.link.refresh_token = self.refresh_token

    async def open(self, request: SessionRequest) -> SessionStarted:
        """S1: connect; raises TransportFault, ProblemError or WorkerRevoked."""
        before = load_record(self._journal)
        record = before.announce(self.instance_id)
        if record != before:
            await save_record(self._journal, record)
        ids = {
            "instance_id": self.instance_id,
            "session_seq": record.session_seq + 1,
            "prev_instance_ids": record.previous(self.instance_id),
        }
        try:
            started = await self._client.start_session(msgspec.structs.replace(request, **ids))
        except TransportFault as fault:
            self._perhaps_seen |= fault.cause not in _NEVER_SENT
            if not self._perhaps_seen:
                await save_record(self._journal, record.withdraw(self.instance_id))
            raise
        except (LinkFault, ProblemError):
            self._perhaps_seen = True
            raise
        await save_record(self._journal, record.confirm(self.instance_id, started.session_seq))
        self.session_id = started.session_id
        self.params = started.params
        self.coordinator_version = started.version
        self._adopt(started.token)
        return started

    async def close(self, reason: str) -> None:
        """S3: say goodbye, so that the coordinator shows offline at once."""
        if self.session_id is not None:
            await self._client.end_session(self.session_id, reason)
            self.session_id = None

    async def refresh_token(self, stale: str) -> None:
        """Fetch a fresh token unless one replaced ``stale`` already; calls at the same time share one request."""
        if self._client.link.token != stale:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._fetch_token())
        await asyncio.shield(self._refreshing)

    async def keep_token_fresh(self) -> None:
        """Refresh the token before it ages, for ever; a failure is tried again while the old token lives."""
        backoff = Backoff(_RETRY_TOKEN_CAP_S)
        while True:
            await self._sleep(random.uniform(self.params.token_refresh_from_s, self.params.token_refresh_to_s))
            while self._client.link.token is not None:
                try:
                    await self.refresh_token(self._client.link.token)
                except (LinkFault, ProblemError) as fault:
                    if not may_help(fault):
                        break  # the next poll or heartbeat meets the same refusal and acts on it
                    await self._sleep(backoff.next_wait(fault))
                else:
                    backoff.works()
                    break

    async def _fetch_token(self) -> None:
        if self.session_id is None:
            return
        issued = await self._client.issue_token(self.session_id)
        self._adopt(issued.token)

    def _adopt(self, token: str) -> None:
        KNOWN_SECRETS.add_passing(token)
        self._client.link.token = token
