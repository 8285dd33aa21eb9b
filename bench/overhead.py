"""What the worker adds to training: processor time per decision of PPO on CartPole, through the worker and bare.

Through the worker counts the core and the job; bare is the same trainer and spec without core, pipe and journal. The
pairs are interleaved, so that a busy machine slows both alike. Start-up is in both. Target: at most 2 %,
else the exit code is 1.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench._stack import Bench, cartpole, paired_worker, parser, report, report_against, tree_cpu_s
from worker_core.wire.codec import Message, decode
from worker_core.wire.spec import canonical_text

TARGET_PCT = 2.0
ROOT = Path(__file__).parents[1]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Bare(Message):
    """What the bare trainer prints."""

    cpu_seconds: float
    steps: int


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--pairs", type=int, default=5, help="interleaved pairs")
    options.add_argument("--decisions", type=int, default=200_000, help="decisions of each run")
    asked = options.parse_args(argv)
    ratios: list[float] = []
    with paired_worker() as bench:
        for pair in range(asked.pairs):
            spec = cartpole(f"overhead-{pair}", asked.decisions)
            bare, through = _bare(spec), _through(bench, spec)
            ratios.append(through / bare)
            figures = {"bare_us": round(1e6 * bare, 2), "through_us": round(1e6 * through, 2)}
            report({"bench": "overhead-pair", "pair": pair, **figures}, json=asked.json)
    overhead = 100 * (statistics.median(ratios) - 1)
    figures: dict[str, object] = {"bench": "overhead", "pairs": len(ratios), "overhead_pct": round(overhead, 2)}
    return 0 if report_against({"overhead_pct": TARGET_PCT}, figures, json=asked.json) else 1


def _bare(spec: dict[str, object]) -> float:
    """Return the processor seconds per decision of the trainer alone."""
    with tempfile.TemporaryDirectory() as workspace:
        folder = Path(workspace)
        for name in ("code", "inputs", "checkpoints", "results", "tmp"):
            (folder / name).mkdir()
        (folder / "spec.json").write_text(canonical_text(spec))
        command = [sys.executable, "-m", "bench._bare_trainer", workspace]
        environment = {**os.environ, **ONE_THREAD}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=600, check=True)
    bare = decode(done.stdout.splitlines()[-1], Bare)
    return bare.cpu_seconds / bare.steps


def _through(bench: Bench, spec: dict[str, object]) -> float:
    """Return the processor seconds per decision of core and job together."""
    bench.wait_idle()
    core = psutil.Process(bench.core.pid)
    before = tree_cpu_s(core)
    job = bench.wait_job(bench.submit(spec), lambda job: job.state == "succeeded", poll_s=0.5)
    bench.wait_idle()
    return (tree_cpu_s(core) - before) / job.step


if __name__ == "__main__":
    sys.exit(main())
