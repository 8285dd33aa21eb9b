"""The parts of a running coordinator, as endpoints and console reach them."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from starlette.requests import HTTPConnection

from coordinator.accounts.audit import Audit
from coordinator.accounts.held_workers import HeldWorkers
from coordinator.accounts.key_changes import KeyChanges
from coordinator.accounts.keys import CoordinatorKeys
from coordinator.accounts.logins import Logins
from coordinator.accounts.pairings import Pairings
from coordinator.accounts.people import People
from coordinator.accounts.presence import Presence
from coordinator.accounts.proofs import Proofs
from coordinator.accounts.rates import RateBook
from coordinator.accounts.restoring import Restoring
from coordinator.accounts.sessions import Sessions
from coordinator.accounts.workers import Workers
from coordinator.clock import Clock
from coordinator.queue.service import QueueService
from coordinator.settings import Settings
from coordinator.storage.database import Database
from coordinator.storage.generation import Generation


@dataclass
class Services:
    """Everything of one running coordinator."""

    settings: Settings
    clock: Clock
    db: Database
    keys: CoordinatorKeys
    generation: int
    data: Path
    public_url: str
    """Where people and workers reach us, without a slash at the end."""
    origins: frozenset[str]
    """Spellings of ``public_url`` that count as ours: on loopback, each name of this machine."""
    people: People
    logins: Logins
    proofs: Proofs
    pairings: Pairings
    rates: RateBook
    restoring: Restoring
    sessions: Sessions
    workers: Workers
    held: HeldWorkers
    key_changes: KeyChanges
    audit: Audit
    stamps: Generation
    presence: Presence
    queue: QueueService
    admin_key: str
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the coordinator ends: parked polls are answered and streams close."""
    failed: bool = False
    """The end came because a part of the coordinator failed."""


def services_of(request: HTTPConnection) -> Services:
    """Return the services of the coordinator that handles a request."""
    return cast(Services, request.app.state.services)
