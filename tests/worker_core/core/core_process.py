"""A core in a process of its own, with tiny jobs, so that a test can kill it like a crash would."""

import asyncio
import sys
from pathlib import Path

from worker_core.core.rounds import Rounds
from worker_core.core.settings import Settings
from worker_core.core.worker import Worker
from worker_core.jobs.runtime import Runtime
from worker_core.journal.journal import Journal
from worker_core.machine.paths import find_paths
from worker_core.machine.sources import find_sources


async def main(home: str) -> None:
    paths = find_paths(home)
    journal = Journal.open(paths.state_db, boot_id="boot-1")
    runtime = Runtime((sys.executable, "-I", "-u", str(Path(__file__).with_name("tiny_job.py"))))
    worker = Worker(paths, journal, find_sources(), Settings(), "terminal", resolve_runtime=lambda: runtime)
    rounds = asyncio.create_task(Rounds(worker, paths, Settings()).tick_for_ever())
    worker.start()
    await worker.left.wait()
    rounds.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
