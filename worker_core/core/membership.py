"""Everything that exists only while this worker is paired: its key, its contact, its deliveries."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from worker_core.core.enrollment import Enrollment
from worker_core.journal.journal import Journal
from worker_core.link.address import Address
from worker_core.link.client import CoordinatorClient
from worker_core.link.contact import Contact, ContactHost
from worker_core.link.delivery import Delivery, DeliveryWatch
from worker_core.link.exchange import Exchanger
from worker_core.link.faults import LinkFault
from worker_core.link.identity import WorkerKey
from worker_core.link.route import BY_SYSTEM, Route
from worker_core.link.session import Connection
from worker_core.machine.clocks import Clock
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import Parameters

_GOODBYE_S = 5.0


class Membership:
    """One enrolled worker at work with its coordinator."""

    def __init__(
        self,
        enrollment: Enrollment,
        key: WorkerKey,
        journal: Journal,
        locate: Callable[[str], Path],
        clock: Clock,
        host: ContactHost,
        watch: DeliveryWatch,
        route: Route = BY_SYSTEM,
    ) -> None:
        self.client = CoordinatorClient(Exchanger(Address.parse(enrollment.coordinator), key, clock, route))
        self.client.link.pinned = enrollment.pinned
        self.connection = Connection(self.client, journal)
        self.contact = Contact(self.client, self.connection, enrollment.pinned, host, clock)
        self.delivery = Delivery(self.client, journal, locate, lambda: self.params, clock.now, watch)

    @property
    def params(self) -> Parameters:
        """The coordinator's intervals."""
        return self.connection.params

    async def goodbye(self, reason: str) -> None:
        """S3, if the coordinator answers soon; without it the coordinator notices by itself."""
        await _soon(self.connection.close(reason))

    async def unpair(self, timeout_s: float) -> bool:
        """S7; True when the coordinator confirmed it in time."""
        return await _soon(self.client.unpair(), timeout_s)

    async def close(self) -> None:
        """End all loops and sockets."""
        await self.contact.stop()
        await self.delivery.stop()
        await self.client.link.close()


async def _soon(request: Awaitable[None], timeout_s: float = _GOODBYE_S) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await request
    except (LinkFault, ProblemError, TimeoutError):
        return False
    return True
