"""Contact with the coordinator, kept up for as long as the worker is paired: one long poll that is always open,
busy or idle, and heartbeats while attempts are held or something changed.

A poll is never broken off to tell news; a heartbeat tells them beside it. Whatever fails is tried again with full
jitter; only a revocation signed with the pinned key ends the contact.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from worker_core.journal.records import JournalError
from worker_core.link.backoff import Backoff, keep_going, spread
from worker_core.link.client import CoordinatorClient
from worker_core.link.exchange import WorkerRevoked
from worker_core.link.faults import LinkFault, TransportFault
from worker_core.link.session import Connection
from worker_core.link.signatures import NotSignedForUs, PinnedCoordinator
from worker_core.machine.clocks import Clock
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import (
    Authorization,
    Control,
    ExtendRequest,
    Health,
    HeldAttempt,
    Observed,
    SessionRequest,
    Verdict,
)
from worker_core.wire.signed import Offer, Revocation
from worker_core.wire.vocabulary import Mode, Reason, WorkerState
from worker_core.wire.work import Heartbeat, HeldLease, LeaseReport, LeaseState, OutboxSize, PollRequest

log = logging.getLogger(__name__)

_SAME_AGAIN_S = 1.0
_AT_ONCE_S = 1.0
_POLL_SLACK_S = 10.0
_POLLS_ALONE_CAP_S = 5.0
_POLLS_ALONE = ("timeout", "broken", "not-ours", "proxy")
"""Faults that may befall only the long poll; nobody is there for any request where the connection is refused."""
_REOPEN = ("session-replaced", "session-ended", "not-found")


@dataclass(frozen=True)
class Posture:
    """What the worker says about itself with every poll and heartbeat."""

    state: WorkerState
    reasons: tuple[Reason, ...]
    local_mode: Mode
    free_slots: int
    leases: tuple[LeaseReport, ...] = ()
    held_gpus: tuple[str, ...] = ()
    health: Health = field(default_factory=Health)
    outbox: OutboxSize = field(default_factory=OutboxSize)


@dataclass(frozen=True)
class Introduction:
    """What the worker says about itself when it connects."""

    worker_id: str
    boot_id: str
    version: str
    capabilities: dict[str, object]
    held: tuple[HeldAttempt, ...]


class ContactHost(Protocol):
    """The core, as its contact sees it."""

    def posture(self) -> Posture: ...

    async def introduction(self) -> Introduction: ...

    def connected(self, verdicts: tuple[Verdict, ...]) -> None:
        """A session is open."""
        ...

    def answered(self) -> None:
        """The coordinator answered: the link works."""
        ...

    def polled(self) -> None:
        """The coordinator took a poll: it may offer work."""
        ...

    def failed(self, fault: Exception) -> None:
        """A request failed."""
        ...

    def control_seen(self, control: Control) -> None: ...

    def authorization_seen(self, authorization: Authorization) -> None: ...

    def offer_seen(self, offer: Offer, jws: str) -> bool:
        """An offer with a good signature came; True when it is a new one."""
        ...

    def lease_seen(self, lease: LeaseState, sent_at: float) -> None:
        """The coordinator said what it holds of a lease; ``sent_at`` is when it was asked, by ``Clock.now``."""
        ...

    def revoked(self, revocation: Revocation) -> None: ...


class Contact:
    """Keeps contact for one enrolled worker."""

    def __init__(
        self,
        client: CoordinatorClient,
        connection: Connection,
        pinned: PinnedCoordinator,
        host: ContactHost,
        clock: Clock,
    ) -> None:
        self.client = client
        self.connection = connection
        self._pinned = pinned
        self._host = host
        self._clock = clock
        self._observed = Observed()
        self._open = False
        self._report = asyncio.Event()
        self._hurry = asyncio.Event()
        self._anew = asyncio.Event()
        self.last_poll: float | None = None
        """When a poll was answered last, before that when the first session was opened: heartbeats that pass do not
        prove that polls do."""
        self._beats = 0
        self._newest_answer = 0
        self._beats_fail = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to connect, poll and beat."""
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "polling": self._poll_for_ever,
            "the heartbeat": self._beat_for_ever,
            "the refreshing of tokens": self.connection.keep_token_fresh,
        }
        self._tasks = [asyncio.create_task(keep_going(loop, what), name=what) for what, loop in loops.items()]

    async def stop(self) -> None:
        """End all loops; requests under way end by themselves when the sockets are closed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def report(self) -> None:
        """Send a heartbeat now: something changed."""
        self._report.set()

    def poll_anew(self) -> None:
        """The slot is free: open another poll that says so. The coordinator answers the older one, none is aborted."""
        self._anew.set()

    def wake(self) -> None:
        """The computer slept, or the network changed: drop dead sockets, beat at once, poll again."""
        self.client.link.drop_connections()
        if self.last_poll is not None:
            self.last_poll = self._clock.now()  # no poll could be answered asleep, which says nothing against polls
        self._hurry.set()
        self._report.set()

    def reconnect(self) -> None:
        """Open the session again: what the coordinator believes of us may be wrong. The open poll is left to itself."""
        self._open = False
        self._anew.set()

    def note(self, fault: Exception) -> None:
        """Act on what any request of this worker met."""
        if isinstance(fault, WorkerRevoked):
            self._host.revoked(fault.revocation)
            return
        if isinstance(fault, ProblemError) and fault.code in _REOPEN and fault.problem.action == "new_session":
            self._open = False
        self._host.failed(fault)

    async def extend(self) -> bool:
        """S4: ask for a longer authorization; True when it was extended."""
        answer = await self.client.extend(ExtendRequest(health=self._host.posture().health))
        self._host.authorization_seen(answer.authorization)
        if not answer.extended:
            log.info("the authorization was not extended: %s", ", ".join(answer.reasons) or "no reason given")
        return answer.extended

    async def _poll_for_ever(self) -> None:
        backoff = Backoff(self.connection.params.retry_cap_s)
        while True:
            began = self._clock.now()
            try:
                if not self._open:
                    await self._open_session()
                pause_s = await self._poll_newest()
                backoff.works()
            except (LinkFault, ProblemError) as fault:
                self.note(fault)
                if not self._open:
                    self.last_poll = None  # without a session there is nothing to poll with
                backoff.cap_s = self._poll_cap_s(fault, began)
                lost, pause_s = backoff.working, backoff.next_wait(fault)
                if lost:  # all workers lose a coordinator at once, and must not return at once
                    pause_s = max(pause_s, random.uniform(0, self.connection.params.reconnect_spread_s))
            except JournalError as error:
                log.warning("no connection can be opened: %s", error)
                pause_s = backoff.next_wait()
            if pause_s:
                await self._wait(self._hurry, pause_s)

    def _poll_cap_s(self, fault: Exception, began: float) -> float:
        """Return the longest wait before the next poll; short where only polls fail, for work may wait for them."""
        cap_s = self.connection.params.retry_cap_s
        if not isinstance(fault, LinkFault):
            return cap_s
        if isinstance(fault, TransportFault) and fault.cause in _POLLS_ALONE and not self._beats_fail:
            self._report.set()  # an idle worker has no other request under way that would tell the one from the other
        answered = self.client.link.last_answer
        return min(cap_s, _POLLS_ALONE_CAP_S) if answered is not None and answered > began else cap_s

    async def _open_session(self) -> None:
        posture, intro = self._host.posture(), await self._host.introduction()
        request = SessionRequest(
            worker_id=intro.worker_id,
            instance_id=self.connection.instance_id,
            session_seq=0,
            boot_id=intro.boot_id,
            version=intro.version,
            local_mode=posture.local_mode,
            state=posture.state,
            reasons=posture.reasons,
            capabilities=intro.capabilities,
            held=intro.held,
        )
        started = await self.connection.open(request)
        self._open = True
        self.last_poll = self.last_poll or self._clock.now()
        self._apply(started.control)
        self._host.connected(started.verdicts)
        self._report.set()

    async def _poll_newest(self) -> float:
        """Keep the newest poll open until it is answered; older ones are answered by the coordinator meanwhile."""
        self._anew.clear()
        newest = self._open_poll()
        while not newest.done():
            asked = asyncio.create_task(self._anew.wait())
            try:
                await asyncio.wait({newest, asked}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                asked.cancel()
            if not newest.done():
                self._anew.clear()
                if not self._open:
                    return 0.0
                newest = self._open_poll()
        return newest.result()

    def _open_poll(self) -> "asyncio.Task[float]":
        poll = asyncio.create_task(self._poll_once())
        poll.add_done_callback(_settle)
        return poll

    async def _poll_once(self) -> float:
        """Hold one poll open and act on its answer; returns the pause before the next."""
        posture = self._host.posture()
        request = PollRequest(
            observed=self._observed,
            local_mode=posture.local_mode,
            state=posture.state,
            reasons=posture.reasons,
            free_slots=posture.free_slots,
            leases=tuple(HeldLease(attempt_id=lease.attempt_id, epoch=lease.epoch) for lease in posture.leases),
            held_gpus=posture.held_gpus,
            wait=self.connection.params.poll_wait_s,
        )
        asked, sent_at = self._clock.awake(), self._clock.now()
        params = self.connection.params
        read_s = max(params.poll_read_timeout_s, params.poll_wait_s + _POLL_SLACK_S)
        answer, asked_pause_s = await self.client.poll(request, read_s)
        self.last_poll = self._clock.now()
        self._host.answered()
        self._host.polled()
        if self._beats_fail:
            self._beats_fail = False
            self._report.set()
        news = answer.control is not None and self._apply(answer.control)
        for lease in answer.leases:
            self._host.lease_seen(lease, sent_at)
        if answer.offer is not None:
            news = self._see_offer(answer.offer) or news
        if asked_pause_s is not None:
            return spread(asked_pause_s)
        # The same answer again and again, or none at once, must not become a storm of polls.
        at_once_s = min(_AT_ONCE_S, request.wait / 2)
        same_again = answer.offer is not None or self._clock.awake() - asked < at_once_s
        return _SAME_AGAIN_S if same_again and not news else 0.0

    def _see_offer(self, jws: str) -> bool:
        try:
            offer = (self.client.link.pinned or self._pinned).offer(jws, self.client.link.gen)
        except NotSignedForUs as error:
            log.warning("an offer was ignored: %s", error)
            return False
        return self._host.offer_seen(offer, jws)

    def _apply(self, control: Control) -> bool:
        """Obey the control document; True when it is another than the one seen last."""
        before, self._observed = self._observed, Observed(gen=control.gen, rev=control.rev)
        self._host.authorization_seen(control.authorization)
        self._host.control_seen(control)
        return self._observed != before

    async def _beat_for_ever(self) -> None:
        """Beat every few seconds while attempts are held, else when there is something to tell."""
        backoff = Backoff(self.connection.params.retry_cap_s)
        while True:
            held, params = bool(self._host.posture().leases), self.connection.params
            await self._wait(self._report, params.heartbeat_s if held else None)
            if not self._open:
                continue
            try:
                await self._beat()
                self._beats_fail = False
                backoff.works()
            except (LinkFault, ProblemError) as fault:
                self.note(fault)
                self._beats_fail = True
                if not held and isinstance(fault, LinkFault):
                    continue  # nothing is at stake: the poll that gets through again brings the next beat along
                backoff.cap_s = 2 * params.heartbeat_s if held else params.retry_cap_s
                await self._wait(self._report, backoff.next_wait(fault))
                self._report.set()

    async def _beat(self) -> None:
        self._beats += 1
        posture = self._host.posture()
        beat = Heartbeat(
            n=self._beats,
            observed=self._observed,
            local_mode=posture.local_mode,
            state=posture.state,
            reasons=posture.reasons,
            health=posture.health,
            leases=posture.leases,
            outbox=posture.outbox,
        )
        sent_at = self._clock.now()
        answer = await self.client.heartbeat(beat)
        self._host.answered()
        if answer.n < self._newest_answer:
            return
        self._newest_answer = answer.n
        self._host.authorization_seen(answer.authorization)
        if answer.control is not None:
            self._apply(answer.control)
        for lease in answer.leases:
            self._host.lease_seen(lease, sent_at)

    async def _wait(self, event: asyncio.Event, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return
        finally:
            event.clear()


def _settle(poll: "asyncio.Task[float]") -> None:
    """Take the end of a poll that nobody waits for any more: a newer one is open, or the contact has ended."""
    if not poll.cancelled() and (fault := poll.exception()) is not None:
        log.debug("a poll ended with %s", fault)
