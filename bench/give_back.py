"""“Give me my GPU back” while a job holds memory: how long until the checkpoint is saved and the memory is free.

    python3 dev.py bench give_back [--json] [--rounds 20] [--mebibytes 512]

Promise: the memory is back within ten seconds, and the job goes on from a checkpoint of this moment.
"""

import sys
import time
from collections.abc import Sequence

import psutil

from bench._stack import Bench, BenchFailed, milliseconds, paired_worker, parser, report_against
from worker_core.control.messages import GiveBackArgs, ModeArgs

TARGET_MS = 10_000.0
_GUARD_S = 120.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--rounds", type=int, default=20, help="how often (default: 20)")
    options.add_argument("--mebibytes", type=int, default=512, help="memory the job holds (default: 512)")
    asked = options.parse_args(argv)
    freed: list[float] = []
    lost: list[int] = []
    with paired_worker() as bench:
        for _ in range(asked.rounds):
            seconds, steps = _round(bench, asked.mebibytes)
            freed.append(seconds)
            lost.append(steps)
    figures: dict[str, object] = {
        "bench": "give_back",
        "rounds": len(freed),
        "mebibytes": asked.mebibytes,
        "most_steps_lost": max(lost),
        **milliseconds(freed),
    }
    return 0 if report_against({"max_ms": TARGET_MS}, figures, json=asked.json) else 1


def _round(bench: Bench, mebibytes: int) -> tuple[float, int]:
    """Return how long the memory took to come back, and the steps between the last one shown and the checkpoint."""
    bench.wait_idle()
    job_id = bench.submit(_spec(mebibytes))
    bench.wait_job(job_id, lambda job: job.phase == "training" and job.step > 0)
    holders = _holders(mebibytes)
    if not holders:
        raise BenchFailed("no process of this worker holds the job's memory")
    status = bench.core.status()
    step = status.job.step if status is not None and status.job is not None else 0
    began = time.monotonic()
    with bench.core.control() as control:
        control.request("give-back", GiveBackArgs())
    bench.core.wait_until(lambda shown: shown.given_back is not None and shown.given_back.freed, "it is free", _GUARD_S)
    if any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in holders):
        raise BenchFailed("the worker says that it is free while the job still holds its memory")
    seconds = time.monotonic() - began
    saved = bench.wait_job(job_id, lambda job: job.state == "queued").step
    bench.client.cancel(job_id)
    with bench.core.control() as control:
        control.request("mode", ModeArgs(mode="run"))
    return seconds, max(0, step - saved)


def _holders(mebibytes: int) -> list[psutil.Process]:
    """Return the processes below this one that hold at least so much."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.memory_info().rss >= mebibytes << 20:
                found.append(process)
        except psutil.Error:
            continue
    return found


def _spec(mebibytes: int) -> dict[str, object]:
    return {
        "kind": "rl-session",
        "name": "heavy",
        "system": {"simulator": {"entry": "heavy:HeavyPole", "init": {"mebibytes": mebibytes}}},
        "files": ["heavy.py"],
        "training": {"cycles": 10000, "simulators": 1, "decisions_per_cycle": 500, "rollout_fragment_length": 16},
        "ppo": {"minibatch_size": 16, "n_epochs": 1},
        "benchmark": {"episodes_per_scenario": 1},
    }


if __name__ == "__main__":
    sys.exit(main())
