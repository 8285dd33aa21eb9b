"""A job that burns every core and holds all the memory it may have, then wants more.

Targets: the coordinator hears of the worker at least every 45 s; the job and not the core is ended for want of memory,
and reported so; else the exit code is 1.
"""

import sys
import time
from collections.abc import Sequence

from bench._stack import Bench, paired_worker, parser, report_against
from worker_core.wire.client import JobView
from worker_core.wire.vocabulary import JOB_END_STATES

SILENCE_S = 45.0
_LOOK_S = 0.5
_AFTER_S = 600.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--minutes", type=float, default=1.0, help="how long the cores burn (default: 1)")
    options.add_argument("--memory-gb", type=float, default=2.0, help="memory limit of the job (default: 2)")
    asked = options.parse_args(argv)
    with paired_worker() as bench:
        core = bench.core.pid
        job_id = bench.submit(_spec(60 * asked.minutes, asked.memory_gb))
        longest, job = _watch(bench, job_id, 60 * asked.minutes + _AFTER_S)
        attempts = bench.client.job(job_id).attempts
        status = bench.core.status()
    figures: dict[str, object] = {
        "bench": "starve",
        "minutes": asked.minutes,
        "longest_silence_s": round(longest, 1),
        "job": job.state,
        "error_class": attempts[-1].error_class if attempts else None,
        "reason": job.reason,
        "core_survived": status is not None and status.pid == core,
        "not_as_wanted": int(
            not (attempts and attempts[-1].error_class == "out-of-memory" and status is not None and status.pid == core)
        ),
    }
    limits = {"longest_silence_s": SILENCE_S, "not_as_wanted": 0}
    return 0 if report_against(limits, figures, json=asked.json) else 1


def _watch(bench: Bench, job_id: str, longest_s: float) -> tuple[float, JobView]:
    """Follow the job to its end; returns the longest time without a word of its worker."""
    longest, give_up = 0.0, time.monotonic() + longest_s
    while True:
        (worker,) = bench.client.workers()
        longest = max(longest, worker.contact_age_s or 0.0)
        job = bench.client.job(job_id)
        if job.state in JOB_END_STATES or time.monotonic() > give_up:
            return longest, job
        time.sleep(_LOOK_S)


def _spec(seconds: float, memory_gb: float) -> dict[str, object]:
    hold = int(0.7 * memory_gb * 1e9)
    return {
        "kind": "rl-session",
        "name": "starving",
        "system": {"simulator": {"entry": "starving:StarvingPole", "init": {"seconds": seconds, "hold_bytes": hold}}},
        "files": ["starving.py"],
        "training": {"cycles": 10_000, "simulators": 1, "decisions_per_cycle": 500, "rollout_fragment_length": 16},
        "ppo": {"minibatch_size": 16, "n_epochs": 1},
        "benchmark": {"episodes_per_scenario": 1},
        "limits": {"max_memory_gb": memory_gb, "silence_seconds": 3600},
        "retry": {"max_attempts": 1},
        "health": {"stall": "warn"},
    }


if __name__ == "__main__":
    sys.exit(main())
