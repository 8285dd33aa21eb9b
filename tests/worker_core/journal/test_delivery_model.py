"""The outbox as a state machine: appends, commits, deliveries, lost answers, thinning, kills and restarts in any order.

The coordinator of the model takes batches with the arithmetic of the real one. What it has at the end must be what was
said, once and in order, or be accounted for by a marker; no number is ever used for two things.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coordinator.queue.ingest import Batch, new_events
from worker_core.journal.journal import Journal
from worker_core.journal.records import EventSlice, NewAttempt
from worker_core.wire.events import CheckpointSaved, Dropped, Event, Log, Metric, seqs_of
from worker_core.wire.work import Accepted, Lease, Limits

LIMITS = Limits(max_runtime_s=1, max_disk_bytes=1, stop_grace_s=1)
ACCEPTED = Accepted(lease=Lease(epoch=1, ttl=1), spec="{}", job_id="j", job_name="n", attempt=1, limits=LIMITS)
ATTEMPT = NewAttempt(
    attempt_id="att_1", job_id="j", job_name="n", kind="k", ordinal=1, epoch=1, offer_jws="", accepted=ACCEPTED
)
BUDGET = 6_000
KINDS = ("line", "metric", "checkpoint")


def event_of(kind: str, number: int) -> Event:
    match kind:
        case "line":
            return Log(ts=1.0, stream="stdout", text=f"{number} " + "x" * 200)
        case "metric":
            return Metric(ts=1.0, step=number, values={"loss": "NaN" if number % 5 == 0 else float(number)})
        case _:
            return CheckpointSaved(ts=1.0, step=number, sha256="0" * 64, size=1)


def number_of(event: Event) -> int:
    return int(event.text.split()[0]) if isinstance(event, Log) else event.step  # pyright: ignore[reportAttributeAccessIssue]


class Delivery(RuleBasedStateMachine):
    """One journal, and a coordinator that takes what is new and drops what overlaps, as W5 says."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.boots = 0
        self.said: list[str] = []
        """The kind of everything that was said; its place is its number."""
        self.committed = 0
        """So much of it was on the disk when its process was killed, or is now."""
        self.received: list[tuple[int, Event]] = []
        self.next_seq = 0
        self.slow: EventSlice | None = None
        self.journal = self._open()
        self._do(self.journal.add_attempt(ATTEMPT))

    @rule(kind=st.sampled_from(KINDS), count=st.integers(10, 60))
    def append(self, kind: str, count: int) -> None:
        async def act() -> None:
            for _ in range(count):
                appended = self.journal.append("att_1", event_of(kind, len(self.said)))
                if appended.seq is not None:
                    self.said.append(kind)

        self._do(act())

    @rule(most=st.integers(1, 80), answer_lost=st.booleans())
    def deliver(self, most: int, answer_lost: bool) -> None:
        async def act() -> None:
            found = await self.journal.next_events("att_1", max_events=most)
            if found is None:
                return
            self._take(found)
            if not answer_lost:
                await self.journal.events_taken("att_1", self.next_seq)

        self._do(act())

    @rule(most=st.integers(20, 80))
    def begin_a_request_that_is_slow(self, most: int) -> None:
        async def act() -> None:
            self.slow = await self.journal.next_events("att_1", max_events=most)

        self._do(act())

    @precondition(lambda self: self.slow is not None)
    @rule(answer_lost=st.booleans())
    def the_slow_request_arrives(self, answer_lost: bool) -> None:
        assert self.slow is not None
        self._take(self.slow)
        self.slow = None
        if not answer_lost:
            self._do(self.journal.events_taken("att_1", self.next_seq))

    @rule()
    def let_time_pass(self) -> None:
        async def act() -> None:
            await self.journal.set_phase("att_1", "running")
            for _ in range(8):
                await asyncio.sleep(0.002)

        self._do(act())
        self.committed = len(self.said)

    @rule()
    def restart(self) -> None:
        self._do(self.journal.close())
        self.committed = len(self.said)
        self.journal = self._open()

    @rule()
    def kill(self) -> None:
        """Go on from the file as it lies there, as after a kill -9 between two writes."""
        before, self.boots = self._folder(), self.boots + 1
        shutil.copytree(before, self._folder(), ignore=shutil.ignore_patterns("*-shm"))
        old, self.journal = self.journal, self._open()
        self._do(old.close())
        there = self.journal.next_seq("att_1")
        assert there >= self.next_seq or self.next_seq > self.committed
        # What was not on the disk was never acknowledged to the job, which is told to say it again, or is gone.
        self._do(self.journal.events_taken("att_1", self.next_seq))

    @rule()
    def refuse_the_next_event(self) -> None:
        async def act() -> None:
            found = await self.journal.next_events("att_1", max_events=1)
            if found is not None:
                await self.journal.replace_event("att_1", found.first_seq, "bad-event")

        self._do(act())

    @invariant()
    def no_number_has_two_meanings(self) -> None:
        place = 0
        for seq, event in self.received:
            assert seq == place
            place += seqs_of(event)
        assert place == self.next_seq

    @invariant()
    def what_arrived_is_in_order_and_unchanged(self) -> None:
        real = [event for _, event in self.received if not isinstance(event, Dropped)]
        numbers = [number_of(event) for event in real if isinstance(event, Log | Metric | CheckpointSaved)]
        assert numbers == sorted(set(numbers))

    @invariant()
    def the_outbox_is_bounded(self) -> None:
        # Checkpoints are never left out, so that many of them stand above what may be thinned.
        assert self.journal.used_bytes() < 3 * BUDGET
        assert self.journal.outbox().events >= 0
        assert self.journal.outbox().bytes >= 0

    def teardown(self) -> None:
        async def deliver_all() -> None:
            while (found := await self.journal.next_events("att_1")) is not None:
                self._take(found)
                await self.journal.events_taken("att_1", self.next_seq)
            assert self.journal.outbox().events == 0
            assert self.journal.outbox().bytes == 0

        self._do(deliver_all())
        self.no_number_has_two_meanings()
        self._do(self.journal.close())
        self.loop.close()
        self.folder.cleanup()

    def _take(self, batch: EventSlice) -> None:
        if batch.first_seq > self.next_seq:
            raise AssertionError(f"a gap: {batch.first_seq} after {self.next_seq}")
        new = new_events(Batch(1, batch.first_seq, batch.events), self.next_seq)
        self.received += new
        if new:
            self.next_seq = new[-1][0] + seqs_of(new[-1][1])

    def _folder(self) -> Path:
        return Path(self.folder.name, str(self.boots))

    def _open(self) -> Journal:
        self._folder().mkdir(exist_ok=True)
        return Journal.open(self._folder() / "state.db", boot_id="one", outbox_limit_bytes=BUDGET)

    def _do(self, act: "asyncio.Future[None] | object") -> None:
        self.loop.run_until_complete(act)  # pyright: ignore[reportArgumentType]


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)
