"""One attempt in a journal, its delivery, and a coordinator that answers what a test scripts."""

import hashlib
from pathlib import Path
from typing import Any

from scripted_coordinator import ScriptedCoordinator

from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, NewAttempt, UploadRow
from worker_core.link.client import CoordinatorClient
from worker_core.link.delivery import Delivery
from worker_core.wire.events import Log, Metric
from worker_core.wire.work import Accepted, Completion, Lease, Limits

ATTEMPT = "att_" + "1" * 32
FINISHED = AttemptEnd(how="finished", outcome="succeeded")


class Watch:
    """Remembers what the delivery told."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lost: list[tuple[str, str]] = []
        self.faults: list[Exception] = []
        self.asked_again: list[str] = []

    async def delivered(self, attempt_id: str) -> None:
        self.done.append(attempt_id)

    async def refused(self, attempt_id: str, why: str) -> None:
        self.lost.append((attempt_id, why))

    def unknown(self, attempt_id: str) -> bool:
        self.asked_again.append(attempt_id)
        return len(self.asked_again) == 1

    def link_failed(self, fault: Exception) -> None:
        self.faults.append(fault)


class Scene:
    """One attempt in a journal, a delivery, and a coordinator."""

    def __init__(self, journal: Journal, client: CoordinatorClient, coordinator: ScriptedCoordinator, blobs: Path):
        self.journal, self.client, self.coordinator, self.blobs = journal, client, coordinator, blobs
        self.watch = Watch()
        self.delivery = self.make_delivery()

    def make_delivery(self) -> Delivery:
        made = Delivery(
            self.client,
            self.journal,
            lambda sha256: self.blobs / sha256,
            lambda: self.coordinator.params,
            self.client.link._clock.now,
            self.watch,
        )
        made.go_on()
        return made

    async def add_attempt(self) -> None:
        accepted = Accepted(
            lease=Lease(epoch=1, ttl=30),
            spec="{}",
            job_id="job",
            job_name="a job",
            attempt=1,
            limits=Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=5),
        )
        self.coordinator.accepted[ATTEMPT] = accepted
        await self.journal.add_attempt(
            NewAttempt(
                attempt_id=ATTEMPT,
                job_id="job",
                job_name="a job",
                kind="rl-session",
                ordinal=1,
                epoch=1,
                offer_jws="",
                accepted=accepted,
            )
        )

    async def add_events(self, count: int, text: str = "") -> None:
        event: Any = None
        for step in range(count):
            made = Log(ts=0.0, stream="stdout", text=text) if text else Metric(ts=0.0, step=step, values={"x": 1.0})
            event = self.journal.append(ATTEMPT, made)
        await event.committed

    async def add_file(self, content: bytes, kind: Any = "result", step: int | None = None, name: str = "") -> str:
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        await self.journal.add_upload(
            UploadRow(
                attempt_id=ATTEMPT,
                sha256=digest,
                name=name or f"{kind}-{digest[:4]}",
                kind=kind,
                size=len(content),
                step=step,
            )
        )
        return digest

    async def begin(self) -> None:
        row = await self.journal.attempt(ATTEMPT)
        assert row is not None
        self.delivery.begin(row)

    async def finish(self, end: AttemptEnd = FINISHED, timeout_s: float = 15.0) -> None:
        await self.journal.set_end(ATTEMPT, end)
        self.delivery.conclude(ATTEMPT)
        assert await self.delivery.settled(ATTEMPT, timeout_s)

    @property
    def steps(self) -> list[int]:
        return [event.step for event in self.coordinator.events[ATTEMPT] if isinstance(event, Metric)]

    @property
    def completion(self) -> Completion:
        return self.coordinator.completions[ATTEMPT]
