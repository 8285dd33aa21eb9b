"""How long a revoked worker's job lives on: from the click to the end of its whole process tree.

Target: at most 2 s each time, else the exit code is 1.
"""

import time
from collections.abc import Sequence

import psutil

from bench._stack import BenchFailed, cartpole, milliseconds, paired_worker, parser, report, report_against

GONE_S = 30.0
TARGET_MS = 2000.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--samples", type=int, default=5, help="workers to pair and revoke")
    asked = options.parse_args(argv)
    answered: list[float] = []
    gone: list[float] = []
    for _ in range(asked.samples):
        until_answer, until_gone = _sample()
        answered.append(until_answer)
        gone.append(until_gone)
    report({"bench": "revoke-answered", "samples": len(answered), **milliseconds(answered)}, json=asked.json)
    figures: dict[str, object] = {"bench": "revoke-to-tree-gone", "samples": len(gone), **milliseconds(gone)}
    return 0 if report_against({"max_ms": TARGET_MS}, figures, json=asked.json) else 1


def _sample() -> tuple[float, float]:
    with paired_worker() as bench:
        job_id = bench.submit(cartpole("revoked", 10_000_000))
        bench.wait_job(job_id, lambda job: job.phase == "training" and job.step > 0)
        tree = psutil.Process(bench.core.pid).children(recursive=True)
        worker_id = bench.client.workers()[0].id
        began = time.monotonic()
        bench.client.revoke(worker_id)
        until_answer = time.monotonic() - began
        _, alive = psutil.wait_procs(tree, timeout=GONE_S)
        if alive:
            raise BenchFailed(f"{len(alive)} processes of the job live on after {GONE_S:.0f} s")
        return until_answer, time.monotonic() - began
