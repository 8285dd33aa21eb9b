"""A core whose jobs are :mod:`bench._outage_job`: ``_outage_core.py HOME POINTS SECONDS``."""

import asyncio
import logging
import sys
from pathlib import Path

from worker_core.control.server import ControlServer
from worker_core.core.embedded import EmbeddedCoordinator
from worker_core.core.operations import CoreOperations
from worker_core.core.rounds import Rounds
from worker_core.core.settings import Settings
from worker_core.core.version import VERSION
from worker_core.core.worker import Worker
from worker_core.jobs.runtime import Runtime, python_folders
from worker_core.journal.journal import Journal
from worker_core.machine.host import boot_id
from worker_core.machine.paths import find_paths
from worker_core.machine.sources import find_sources


async def run(home: str, points: str, seconds: str) -> int:
    """Run until the worker has left."""
    paths, settings, sources = find_paths(home), Settings(allow_uncontained=True), find_sources()
    job = str(Path(__file__).with_name("_outage_job.py"))
    runtime = Runtime(
        (sys.executable, "-I", "-u", job, "--points", points, "--seconds", seconds),
        readable=(*python_folders(), Path(__file__).parent),
    )
    journal = Journal.open(paths.state_db, boot_id=boot_id(), wall=sources.clock.wall)
    worker = Worker(paths, journal, sources, settings, "terminal", resolve_runtime=lambda: runtime)
    embedded = EmbeddedCoordinator(paths.coordinator, 0, "", lambda port, account: None)
    server = ControlServer(paths, CoreOperations(worker, embedded), VERSION)
    rounds = asyncio.create_task(Rounds(worker, paths, settings).tick_for_ever())
    await server.start()
    worker.start()
    try:
        await worker.left.wait()
    finally:
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)
        await server.stop()
        await journal.close()
    return 0


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s", level="INFO")
    sys.exit(asyncio.run(run(*sys.argv[1:])))
