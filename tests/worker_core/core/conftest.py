"""Fixtures of the core: a whole worker in this process, with real jobs, a real journal and a scripted coordinator."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "link"))

from scripted_coordinator import ScriptedCoordinator  # pyright: ignore[reportMissingImports]

from worker_core.control.messages import PairArgs
from worker_core.core.rounds import Rounds
from worker_core.core.settings import Settings
from worker_core.core.worker import Worker
from worker_core.jobs.runtime import Runtime
from worker_core.journal.journal import Journal
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.paths import Paths, find_paths
from worker_core.machine.sources import find_sources

TINY_JOB = Path(__file__).with_name("tiny_job.py")


class Bench:
    """One worker on the bench: start it, crash it, start it again."""

    def __init__(self, home: Path, coordinator: ScriptedCoordinator) -> None:
        self.paths: Paths = find_paths(str(home))
        self.coordinator = coordinator
        self.settings = Settings(allow_uncontained=True)
        self.worker: Worker
        self._rounds: asyncio.Task[None] | None = None
        self._running = False

    async def start(self, once: bool = False) -> Worker:
        private_folder(self.paths.data)
        journal = Journal.open(self.paths.state_db, boot_id="boot-1")
        runtime = Runtime((sys.executable, "-I", "-u", str(TINY_JOB)))
        sources = find_sources()
        self.worker = Worker(self.paths, journal, sources, self.settings, "terminal", once, lambda: runtime)
        self._rounds = asyncio.create_task(Rounds(self.worker, self.paths, self.settings).tick_for_ever())
        self.worker.start()
        self._running = True
        return self.worker

    async def start_paired(self) -> Worker:
        worker = await self.start()
        await worker.begin_pairing(
            PairArgs(coordinator=self.coordinator.url, email="ada@example.org", credential_store="file")
        )
        await self.until(lambda: worker.known.life.standing == "connected")
        return worker

    async def stop(self, how: Any = "now") -> None:
        """Let the worker leave, as a signal would."""
        if not self._running:
            return
        self._running = False
        if not self.worker.left.is_set():
            self.worker.leave(how)
            async with asyncio.timeout(20):
                await self.worker.left.wait()
        if self._rounds is not None:
            self._rounds.cancel()
            await asyncio.gather(self._rounds, return_exceptions=True)
        await self.worker.journal.close()

    async def until(self, condition: Callable[[], Any], timeout_s: float = 15.0) -> Any:
        return await self.coordinator.until(condition, timeout_s)

    async def until_state(self, state: str, timeout_s: float = 15.0) -> None:
        await self.until(lambda: self.worker.status().state == state, timeout_s)

    @staticmethod
    def processes_of(attempt_id: str) -> list[psutil.Process]:
        """Return the living processes of an attempt's job."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("STOKER_ATTEMPT") == attempt_id and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def offer(self, steps: int = 20, **spec: Any) -> str:
        return self.coordinator.offer(json.dumps({"steps": steps, **spec}))


@pytest.fixture
async def coordinator() -> AsyncIterator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator()
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
async def bench(tmp_path: Path, coordinator: ScriptedCoordinator) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "home", coordinator)
    yield made
    await made.stop()
