"""Process for a test that kills it: appends events for ever and prints the number of each that was committed."""

import asyncio
import sys
from pathlib import Path

from worker_core.journal.journal import Journal
from worker_core.journal.records import NewAttempt
from worker_core.wire.codec import decode
from worker_core.wire.events import Metric


async def append_for_ever(file: str, attempt: NewAttempt) -> None:
    journal = Journal.open(Path(file), boot_id="one")
    await journal.add_attempt(attempt)
    for step in range(10_000_000):
        appended = journal.append(attempt.attempt_id, Metric(ts=1.0, step=step, values={"loss": float(step)}))
        if step % 50 == 0:
            await appended.committed
            print(appended.seq, flush=True)


if __name__ == "__main__":
    asyncio.run(append_for_ever(sys.argv[1], decode(sys.stdin.buffer.read(), NewAttempt)))
