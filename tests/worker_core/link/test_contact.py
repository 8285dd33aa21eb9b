"""Contact that nothing but a revocation ends, and that never becomes a storm of requests."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from scripted_coordinator import Answer, ScriptedCoordinator, refusal

from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalFull
from worker_core.link.client import CoordinatorClient
from worker_core.link.contact import Contact, Introduction, Posture
from worker_core.link.faults import TransportFault
from worker_core.link.session import Connection
from worker_core.machine.clocks import SystemClock
from worker_core.wire.work import LeaseReport, PollRequest


class Host:
    """A core that only listens."""

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.leases: tuple[LeaseReport, ...] = ()
        self.failures: list[Exception] = []
        self.stumbles = 0

    def posture(self) -> Posture:
        if self.stumbles:
            self.stumbles -= 1
            raise ZeroDivisionError("nobody foresaw this")
        return Posture(state="available", reasons=(), local_mode="run", free_slots=1, leases=self.leases)

    async def introduction(self) -> Introduction:
        return Introduction(worker_id=self.worker_id, boot_id="b", version="1", capabilities={}, held=())

    def connected(self, verdicts: Any) -> None: ...

    def answered(self) -> None: ...

    def failed(self, fault: Exception) -> None:
        self.failures.append(fault)

    def control_seen(self, control: Any) -> None: ...

    def authorization_seen(self, authorization: Any) -> None: ...

    def offer_seen(self, offer: Any, jws: str) -> bool:
        return True

    def polled(self) -> None: ...

    def lease_seen(self, lease: Any, sent_at: float) -> None: ...

    def revoked(self, revocation: Any) -> None: ...


@pytest.fixture
def host(coordinator: ScriptedCoordinator) -> Host:
    return Host(coordinator.worker_id)


@pytest.fixture
async def contact(client: CoordinatorClient, journal: Journal, host: Host) -> AsyncIterator[Contact]:
    assert client.link.pinned is not None
    made = Contact(client, Connection(client, journal), client.link.pinned, host, SystemClock())
    yield made
    await made.stop()


async def test_polls_answered_at_once_with_nothing_become_no_storm(
    contact: Contact, coordinator: ScriptedCoordinator
) -> None:
    coordinator.params = msgspec.structs.replace(coordinator.params, poll_wait_s=25.0)
    coordinator.script("POST", "/v1/poll", *[Answer(status=204)] * 1000)
    contact.start()
    await coordinator.until(lambda: coordinator.count("POST", "/v1/poll"))
    await asyncio.sleep(2.5)
    assert coordinator.count("POST", "/v1/poll") <= 4


@pytest.mark.parametrize("leased", [False, True])
async def test_heartbeats_that_fail_are_sent_less_and_less(
    contact: Contact, coordinator: ScriptedCoordinator, host: Host, monkeypatch: pytest.MonkeyPatch, leased: bool
) -> None:
    random.seed(1)
    if leased:
        host.leases = (LeaseReport(attempt_id="att_1", epoch=1, phase="running"),)
    coordinator.params = msgspec.structs.replace(coordinator.params, heartbeat_s=15.0, retry_cap_s=60.0)
    coordinator.script("POST", "/v1/heartbeat", *[refusal("internal")] * 1000)
    pauses: list[float] = []

    async def skip(event: asyncio.Event, timeout_s: float | None) -> None:
        if event is contact._report and not event.is_set() and timeout_s is not None:
            pauses.append(timeout_s)
            await asyncio.sleep(0.001)
        else:
            await event.wait()
        event.clear()

    monkeypatch.setattr(contact, "_wait", skip)
    contact.start()
    await coordinator.until(lambda: len(pauses) > 60)
    late = [pause for pause in pauses[10:] if pause != 15.0]
    assert max(late) > (20 if leased else 40)
    assert max(late) <= (30 if leased else 60)
    assert len(set(late)) > len(late) // 2


async def test_a_full_disk_when_connecting_ends_no_polling(
    contact: Contact, coordinator: ScriptedCoordinator, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, full = journal.set_fact, [True]

    async def set_fact(name: str, text: str | None) -> None:
        if full.pop() if full else False:
            raise JournalFull("The disk is full.")
        await honest(name, text)

    monkeypatch.setattr(journal, "set_fact", set_fact)
    contact.start()
    await coordinator.until(lambda: coordinator.polls)


async def test_an_error_that_nobody_foresaw_ends_no_loop(
    contact: Contact, coordinator: ScriptedCoordinator, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.stumbles = 2
    contact.start()
    await coordinator.until(lambda: coordinator.polls and coordinator.heartbeats)
    assert "polling failed; it begins again" in caplog.text


async def test_polls_that_never_get_through_are_dated_from_the_first_session(
    contact: Contact, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script("POST", "/v1/poll", *[Answer(raw=b"")] * 1000)
    contact.start()
    await coordinator.until(lambda: coordinator.count("POST", "/v1/poll"))
    assert contact.last_poll is not None
    assert coordinator.polls == []


async def test_after_the_end_nothing_more_is_sent(
    contact: Contact, client: CoordinatorClient, coordinator: ScriptedCoordinator
) -> None:
    contact.start()
    await coordinator.until(lambda: coordinator.polls)
    await contact.stop()
    await client.link.close()
    seen = len(coordinator.seen)
    with pytest.raises(Exception, match="no more"):
        await client.meta()
    assert len(coordinator.seen) == seen


async def test_a_worker_waits_longer_for_a_poll_than_its_coordinator_holds_it(
    contact: Contact, client: CoordinatorClient, coordinator: ScriptedCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator.params = msgspec.structs.replace(coordinator.params, poll_wait_s=90.0, poll_read_timeout_s=35.0)
    honest, waits = client.link.exchange, list[float | None]()

    async def note(plane: Any, method: str, path: str, *rest: Any, read_s: float | None = None, **more: Any) -> Any:
        waits.extend([read_s] if path == "/v1/poll" else [])
        return await honest(plane, method, path, *rest, read_s=read_s, **more)

    monkeypatch.setattr(client.link, "exchange", note)
    contact.start()
    await coordinator.until(lambda: waits)
    assert waits[0] == 100.0


async def test_an_answer_is_waited_for_as_long_as_was_asked(
    client: CoordinatorClient, coordinator: ScriptedCoordinator
) -> None:
    async def slowly(_: Any) -> None:
        await asyncio.sleep(2)

    coordinator.script("POST", "/v1/poll", slowly)
    with pytest.raises(TransportFault, match="did not answer in time"):
        await client.poll(PollRequest(), 0.2)


async def test_workers_that_lost_a_coordinator_together_do_not_return_together(
    contact: Contact, coordinator: ScriptedCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator.params = msgspec.structs.replace(coordinator.params, reconnect_spread_s=500.0)
    pauses: list[float] = []

    async def skip(event: asyncio.Event, timeout_s: float | None) -> None:
        if event is contact._hurry and timeout_s is not None:
            pauses.append(timeout_s)
            await asyncio.sleep(0.001)
        else:
            await asyncio.sleep(3600)

    monkeypatch.setattr(contact, "_wait", skip)
    contact.start()
    await coordinator.until(lambda: coordinator.polls)
    coordinator.script("POST", "/v1/poll", *[refusal("internal"), refusal("internal"), lambda _: None] * 30)
    await coordinator.until(lambda: len(pauses) >= 20, timeout_s=20)
    assert max(pauses) > 60


async def test_an_idle_worker_without_contact_tries_with_its_polls_alone(
    contact: Contact, coordinator: ScriptedCoordinator
) -> None:
    contact.start()
    await coordinator.until(lambda: coordinator.polls and coordinator.heartbeats)
    coordinator.script("POST", "/v1/(poll|heartbeat)", *[Answer(raw=b"")] * 1000)
    polls, beats = coordinator.count("POST", "/v1/poll"), coordinator.count("POST", "/v1/heartbeat")
    await coordinator.until(lambda: coordinator.count("POST", "/v1/poll") >= polls + 3, timeout_s=30)
    assert coordinator.count("POST", "/v1/heartbeat") <= beats + 2
    coordinator._rules.clear()
    heard = len(coordinator.heartbeats)
    await coordinator.until(lambda: len(coordinator.heartbeats) > heard, timeout_s=15)
