"""The outbox as a state machine: appends, commits, deliveries, lost answers and restarts in any order."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from worker_core.journal.journal import Journal
from worker_core.journal.records import NewAttempt
from worker_core.wire.events import Log
from worker_core.wire.work import Accepted, Lease, Limits

LIMITS = Limits(max_runtime_s=1, max_disk_bytes=1, stop_grace_s=1)
ACCEPTED = Accepted(lease=Lease(epoch=1, ttl=1), spec="{}", job_id="j", job_name="n", attempt=1, limits=LIMITS)
ATTEMPT = NewAttempt(
    attempt_id="att_1", job_id="j", job_name="n", kind="k", ordinal=1, epoch=1, offer_jws="", accepted=ACCEPTED
)


class Delivery(RuleBasedStateMachine):
    """The coordinator takes what is new and drops what overlaps, as W5 says."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.said: list[str] = []
        self.received: list[str] = []
        self.journal = self._open()
        self.loop.run_until_complete(self.journal.add_attempt(ATTEMPT))

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        async def act() -> None:
            for _ in range(count):
                self.said.append(f"line {len(self.said)}")
                self.journal.append("att_1", Log(ts=1.0, stream="stdout", text=self.said[-1]))

        self.loop.run_until_complete(act())

    @rule(most=st.integers(1, 4), answer_lost=st.booleans())
    def deliver(self, most: int, answer_lost: bool) -> None:
        async def act() -> None:
            found = await self.journal.next_events("att_1", max_events=most)
            if found is None:
                return
            assert found.first_seq <= len(self.received)
            fresh = found.events[len(self.received) - found.first_seq :]
            self.received += [event.text for event in fresh if isinstance(event, Log)]
            if not answer_lost:
                await self.journal.events_taken("att_1", len(self.received))

        self.loop.run_until_complete(act())

    @rule()
    def restart(self) -> None:
        self.loop.run_until_complete(self.journal.close())
        self.journal = self._open()

    @precondition(lambda self: self.said)
    @rule()
    def flush(self) -> None:
        self.loop.run_until_complete(self.journal.set_phase("att_1", "running"))

    @invariant()
    def everything_arrives_once_and_in_order(self) -> None:
        assert self.received == self.said[: len(self.received)]
        assert self.journal.next_seq("att_1") == len(self.said)
        assert self.journal.outbox().events >= len(self.said) - len(self.received)

    def teardown(self) -> None:
        self.loop.run_until_complete(self.journal.close())
        self.loop.close()
        self.folder.cleanup()

    def _open(self) -> Journal:
        return Journal.open(Path(self.folder.name, "state.db"), boot_id="one")


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
