"""A home with a journal, and attempts that run the tiny jobs of tests/jobs_fixtures."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from worker_core.jobs.attempt import AttemptRun
from worker_core.jobs.runtime import Runtime, python_folders
from worker_core.jobs.sandbox.confinement import Confinement
from worker_core.jobs.workspace import Fetch
from worker_core.journal.journal import Journal
from worker_core.journal.records import NewAttempt
from worker_core.machine.clocks import SystemClock
from worker_core.machine.paths import Paths, find_paths
from worker_core.wire.events import Event, Log, Metric
from worker_core.wire.ids import new_id
from worker_core.wire.work import Accepted, Lease, Limits

FIXTURES = Path(__file__).parents[2] / "jobs_fixtures"
PRYING = Path(__file__).parents[2] / "journeys" / "simulators"
LIMITS = Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=10, silence_s=30)


async def no_input(sha256: str, size: int, destination: Path) -> None:
    raise AssertionError(f"no input {sha256} ({size} bytes) was expected to be fetched to {destination}")


def new_attempt(limits: Limits = LIMITS, **accepted: object) -> NewAttempt:
    """Return an attempt as the core writes it down."""
    plain = Accepted(
        lease=Lease(epoch=1, ttl=300), spec='{"kind":"test"}', job_id="job_1", job_name="test", attempt=1, limits=limits
    )
    return NewAttempt(
        # Processes are found by this id, so no two tests may share one.
        attempt_id=new_id("att"),
        job_id="job_1",
        job_name="test",
        kind="rl-session",
        ordinal=1,
        epoch=1,
        offer_jws="signed",
        accepted=msgspec.structs.replace(plain, **accepted),
    )


@dataclass
class Bench:
    """Runs attempts in one home and looks at what came of them."""

    paths: Paths
    journal: Journal
    attempt_id: str = ""
    metrics: list[Metric] = field(default_factory=list)
    happened: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(
        self,
        behaviour: str,
        row: NewAttempt | None = None,
        fetch: Fetch = no_input,
        confinement: Confinement | None = None,
    ) -> AttemptRun:
        row = row or new_attempt()
        self.attempt_id = row.attempt_id
        await self.journal.add_attempt(row)
        return AttemptRun(
            row,
            paths=self.paths,
            journal=self.journal,
            runtime=Runtime(
                (sys.executable, str(FIXTURES / "job.py"), behaviour), readable=(*python_folders(), FIXTURES, PRYING)
            ),
            fetch=fetch,
            clock=SystemClock(),
            on_change=self.happened.set,
            on_metric=self._on_metric,
            confinement=confinement,
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something that a job does has made ``holds`` true."""
        async with asyncio.timeout(60):
            while not holds():
                self.happened.clear()
                await self.happened.wait()

    def _on_metric(self, metric: Metric) -> None:
        self.metrics.append(metric)
        self.happened.set()

    async def events(self) -> tuple[Event, ...]:
        found = await self.journal.next_events(self.attempt_id, max_events=100_000, max_bytes=1 << 30)
        return found.events if found else ()

    async def lines(self, stream: str) -> list[str]:
        return [event.text for event in await self.events() if isinstance(event, Log) and event.stream == stream]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = find_paths(str(tmp_path / "home"))
    found.data.mkdir(parents=True)
    found.cache.mkdir()
    return found


@pytest.fixture
async def bench(paths: Paths) -> AsyncIterator[Bench]:
    journal = Journal.open(paths.state_db, boot_id="this boot")
    yield Bench(paths, journal)
    await journal.close()


@pytest.fixture
def attempt() -> Callable[..., NewAttempt]:
    return new_attempt
