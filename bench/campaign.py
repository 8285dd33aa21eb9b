"""Random schedules of faults against real processes: what must hold is checked from outside after each.

Target: no violation in any schedule, else the exit code is 1. A violated schedule prints its seed and what was
wrong, and keeps its folder with every log; ``--schedules 1 --seed S`` runs that plan again.
"""

import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from queue import Queue

from bench._stack import parser, quantile, report
from tests.faults.plan import draw
from tests.faults.proxy import FaultProxy
from tests.faults.schedule import Outcome, Schedule
from tests.faults.site import Blueprint


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--schedules", type=int, default=200, help="how many schedules to run (default: 200)")
    options.add_argument("--seed", type=int, default=1, help="seed of the first schedule; the next has the next number")
    options.add_argument("--jobs", type=int, default=3, help="how many run at the same time (default: 3)")
    asked = options.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="stk-"))
    seeds = range(asked.seed, asked.seed + asked.schedules)
    began = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        for outcome in _run_all(folder, seeds, asked.jobs):
            outcomes.append(outcome)
            _tell(outcome, len(outcomes), len(seeds))
    finally:
        kept = [outcome.folder for outcome in outcomes if outcome.folder is not None]
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    report({"bench": "campaign", **_figures(outcomes), "wall_s": round(time.monotonic() - began)}, json=asked.json)
    return 1 if kept else 0


def _run_all(folder: Path, seeds: Sequence[int], at_once: int) -> Iterator[Outcome]:
    blueprints: Queue[Blueprint] = Queue()
    stop = threading.Event()
    proxies = [FaultProxy() for _ in range(min(at_once, len(seeds)))]
    try:
        for index, proxy in enumerate(proxies):
            blueprints.put(Blueprint(folder / f"blueprint-{index}", proxy))

        def run(seed: int) -> Outcome:
            blueprint = blueprints.get()
            try:
                return Schedule(draw(seed), blueprint, folder / f"s{seed}", stop).run()
            finally:
                blueprints.put(blueprint)

        with ThreadPoolExecutor(len(proxies)) as pool:
            try:
                for done in as_completed([pool.submit(run, seed) for seed in seeds]):
                    yield done.result()
            finally:
                stop.set()  # after Ctrl-C what runs ends at once, and the rest never begins
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        for proxy in proxies:
            proxy.close()
        for index in range(len(proxies)):
            shutil.rmtree(folder / f"blueprint-{index}", ignore_errors=True)


def _figures(outcomes: Sequence[Outcome]) -> dict[str, object]:
    faults, network, jobs, checked = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for outcome in outcomes:
        faults.update(outcome.faults)
        network.update(outcome.network)
        jobs.update(outcome.jobs)
        checked.update(asdict(outcome.counts))
    recovery = [outcome.recovery_s for outcome in outcomes] or [0.0]
    return {
        "schedules": len(outcomes),
        "violations": sum(len(outcome.violations) for outcome in outcomes),
        "violated_seeds": [outcome.seed for outcome in outcomes if outcome.violations],
        "faults": sum(faults.values()),
        "faults_by_kind": dict(faults.most_common()),
        "requests_harmed": dict(network.most_common()),
        "jobs": dict(jobs.most_common()),
        "attempts": sum(outcome.attempts for outcome in outcomes),
        "checked": dict(checked),
        "recovery_p50_s": round(quantile(recovery, 0.5), 2),
        "recovery_p99_s": round(quantile(recovery, 0.99), 2),
        "recovery_max_s": round(max(recovery), 2),
    }


def _tell(outcome: Outcome, number: int, of: int) -> None:
    """Say on stderr how one schedule went: standard output belongs to the result."""
    verdict = "ok" if not outcome.violations else f"VIOLATED, see {outcome.folder}"
    line = f"{number}/{of} seed {outcome.seed}: {verdict}  faults {sum(outcome.faults.values())}  "
    line += f"recovery {outcome.recovery_s:.1f} s  rest {outcome.rest_s:.1f} s  wall {outcome.wall_s:.0f} s"
    for what in outcome.violations:
        line += f"\n    {what[:1500]}"
    print(line, file=sys.stderr, flush=True)
