"""A core in a process of its own, with tiny jobs, so that a test can kill it like a crash would."""

import asyncio
import logging
import sys
from pathlib import Path

from worker_core.core.end_signals import EndSignals
from worker_core.core.power_duty import PowerDuty
from worker_core.core.rounds import Rounds
from worker_core.core.settings import Settings
from worker_core.core.worker import Worker
from worker_core.jobs.runtime import Runtime
from worker_core.journal.journal import Journal
from worker_core.machine.paths import find_paths
from worker_core.machine.sources import find_sources


async def main(home: str) -> int:
    paths = find_paths(home)
    journal = Journal.open(paths.state_db, boot_id="boot-1")
    runtime = Runtime((sys.executable, "-I", "-u", str(Path(__file__).with_name("tiny_job.py"))))
    sources = find_sources()
    worker = Worker(
        paths, journal, sources, Settings(allow_uncontained=True), "terminal", resolve_runtime=lambda: runtime
    )
    rounds = asyncio.create_task(Rounds(worker, paths, Settings()).tick_for_ever())
    power = asyncio.create_task(PowerDuty(worker, sources.power).serve())
    signals = EndSignals(worker)
    with signals.listening():
        worker.start()
        await worker.left.wait()
    rounds.cancel()
    power.cancel()
    await asyncio.gather(rounds, power, return_exceptions=True)
    return 130 if signals.interrupted else 0


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level="INFO")
    sys.exit(asyncio.run(main(sys.argv[1])))
