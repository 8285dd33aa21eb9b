"""Random schedules of lost, late and repeated requests, crashes and outages against the real queue on a real database.

Target: no result twice, no job stuck, no job with two owners, else the exit code is 1. Without the fence such a
schedule must give a result twice, else the exit code is 1 too. A violated schedule prints its seed; ``--schedules 1
--seed S`` runs it again.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench._stack import parser, report
from coordinator.queue.ledger import Ledger
from coordinator.queue.rows import Held
from tests.coordinator.queue.desk import Desk
from tests.coordinator.queue.lease_world import run_schedule

_MEMORY = Path("/dev/shm")
_LONGEST_SEARCH = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--schedules", type=int, default=100, help="how many schedules to run (default: 100)")
    options.add_argument("--seed", type=int, default=1, help="seed of the first schedule; the next has the next number")
    asked = options.parse_args(argv)
    seeds = range(asked.seed, asked.seed + asked.schedules)
    fenced = _run_all(seeds, json=asked.json)
    report({"bench": "leases", **fenced}, json=asked.json)
    shown_by = _schedule_that_needs_the_fence()
    report({"bench": "leases", "fence": False, "double_result_in_seed": shown_by}, json=asked.json)
    return 1 if fenced["violations"] or shown_by is None else 0


def _schedule_that_needs_the_fence() -> int | None:
    with _unfenced(), _desk() as desk:
        for seed in range(_LONGEST_SEARCH):
            try:
                run_schedule(desk, seed)
            except AssertionError as error:
                if str(error).startswith("double result"):
                    return seed
                desk.drop_jobs()
    return None


def _run_all(seeds: Sequence[int], *, json: bool) -> dict[str, Any]:
    violations: Counter[str] = Counter()
    met: Counter[str] = Counter()
    starts = jobs = 0
    began = time.monotonic()
    with _desk() as desk:
        for seed in seeds:
            try:
                world = run_schedule(desk, seed)
            except AssertionError as error:
                kind = str(error).partition(":")[0]
                violations[kind] += 1
                desk.drop_jobs()
                report({"seed": seed, "violation": str(error)}, json=json)
                continue
            met += world.met
            starts, jobs = starts + sum(world.starts.values()), jobs + len(world.jobs)
    return {
        "schedules": len(seeds),
        "violations": dict(violations),
        "starts_per_job": round(starts / jobs, 2) if jobs else 0.0,
        "met": dict(sorted(met.items())),
        "wall_s": round(time.monotonic() - began, 1),
    }


@contextmanager
def _desk() -> Generator[Desk]:
    """A desk in memory where that is a folder: durability is measured elsewhere."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        desk = Desk(Path(folder))
        try:
            yield desk
        finally:
            desk.close()


@contextmanager
def _unfenced() -> Generator[None]:
    """Take the epoch check away."""
    honest = Ledger.fence

    def unfenced(self: Ledger, conn: Any, attempt_id: str, worker_id: str, epoch: int) -> Held:
        del epoch
        return self.reread(conn, attempt_id, worker_id)

    Ledger.fence = unfenced  # type: ignore[method-assign]
    try:
        yield
    finally:
        Ledger.fence = honest  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main())
