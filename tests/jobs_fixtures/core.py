"""A core reduced to one attempt, for tests that kill it: ``core.py HOME BEHAVIOUR [contained]``; a line per step."""

import asyncio
import sys
from pathlib import Path

from worker_core.jobs.attempt import AttemptRun
from worker_core.jobs.runtime import Runtime, python_folders
from worker_core.jobs.sandbox.confinement import Confinement
from worker_core.jobs.sandbox.finder import find_containment
from worker_core.journal.journal import Journal
from worker_core.journal.records import NewAttempt
from worker_core.machine.clocks import SystemClock
from worker_core.machine.host import boot_id
from worker_core.machine.paths import find_paths
from worker_core.wire.codec import decode

JOB = Path(__file__).with_name("job.py")


async def no_input(sha256: str, size: int, destination: Path) -> None:
    raise AssertionError(f"the test's job has no input {sha256} of {size} bytes for {destination}")


async def main(home: str, behaviour: str, attempt: NewAttempt, *, contained: bool) -> None:
    paths = find_paths(home)
    journal = Journal.open(paths.state_db, boot_id=boot_id())
    await journal.add_attempt(attempt)
    run = AttemptRun(
        attempt,
        paths=paths,
        journal=journal,
        runtime=Runtime((sys.executable, str(JOB), behaviour), readable=(*python_folders(), JOB.parent)),
        fetch=no_input,
        clock=SystemClock(),
        on_change=lambda: print(run.progress.phase, flush=True),
        on_metric=lambda metric: print("step", metric.step, flush=True),
        confinement=Confinement(find_containment(paths)) if contained else None,
    )
    await run.run()
    await journal.close()


if __name__ == "__main__":
    accepted = decode(Path(sys.argv[1], "attempt.json").read_bytes(), NewAttempt)
    asyncio.run(main(sys.argv[1], sys.argv[2], accepted, contained="contained" in sys.argv[3:]))
