"""What the worker adds to training: processor time of PPO on CartPole, through the worker and bare.

Through the worker are the core and everything below it; bare is the same trainer with the same spec, environment,
session and priority, but without core, pipe and journal. Told apart are the cost per decision, read in the middle of
each run, and what a run costs once: its start, its end, delivery. The runs come in pairs whose order alternates, so
that neither a drift nor a busy machine speaks for one side. Target: at most 2 % more per decision, by the median of
the pairs, else the exit code is 1. The interval around it comes from the order of the pairs alone (sign test).
"""

import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from app.cli.job_views import all_points
from bench._cpu import Point, Watch, per_step
from bench._stack import (
    Bench,
    BenchFailed,
    cartpole,
    paired_worker,
    parser,
    report,
    report_against,
    tree_cpu_s,
)
from worker_core.jobs.job import job_environment
from worker_core.machine.priority import lower_priority
from worker_core.machine.spawn import spawn
from worker_core.wire.codec import Message, decode
from worker_core.wire.spec import canonical_text

TARGET_PCT = 2.0
ROOT = Path(__file__).parents[1]
FIRST, LAST = 0.15, 0.95
"""The share of a run that is its middle."""
LONGEST_S = 900.0
LEAST_CONFIDENCE = 0.9


class Cost(Message):
    """Processor seconds of one run: per decision, and all that does not depend on their number."""

    per_decision_s: float
    core_per_decision_s: float
    once_s: float


class BareEnd(Message):
    """What the bare trainer prints."""

    cpu_seconds: float
    steps: int
    points: list[tuple[float, int]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--pairs", type=int, default=6, help="pairs of runs; an even number balances their order")
    options.add_argument("--decisions", type=int, default=240_000, help="decisions of each run")
    asked = options.parse_args(argv)
    pairs: list[tuple[Cost, Cost]] = []
    with paired_worker() as bench:
        for number in range(asked.pairs):
            pairs.append(_pair(bench, number, cartpole(f"overhead-{number}", asked.decisions)))
            report({"bench": "overhead-pair", "pair": number, **_told(*pairs[-1])}, json=asked.json)
    figures = summary(pairs)
    return 0 if report_against({"overhead_pct": TARGET_PCT}, figures, json=asked.json) else 1


def summary(pairs: Sequence[tuple[Cost, Cost]]) -> dict[str, object]:
    """Return the figures of all pairs of bare and through."""
    overheads = [100 * (through.per_decision_s / bare.per_decision_s - 1) for bare, through in pairs]
    core_shares = [100 * through.core_per_decision_s / bare.per_decision_s for bare, through in pairs]
    low, high, confidence = interval(overheads)
    return {
        "bench": "overhead",
        "pairs": len(pairs),
        "overhead_pct": round(statistics.median(overheads), 2),
        "low_pct": round(low, 2),
        "high_pct": round(high, 2),
        "confidence_pct": round(100 * confidence, 1),
        "of_it_core_pct": round(statistics.median(core_shares), 2),
        "bare_us": round(1e6 * statistics.median(bare.per_decision_s for bare, _ in pairs), 2),
        "once_bare_s": round(statistics.median(bare.once_s for bare, _ in pairs), 2),
        "once_through_s": round(statistics.median(through.once_s for _, through in pairs), 2),
    }


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return an interval for the median, and how sure it is, from nothing but how many values lie on each side.

    It is the narrowest one between two of the values that is at least 90 % sure, else the widest there is.
    """
    ordered, tries = sorted(values), len(values)
    missed = 2 * 0.5**tries
    place = 0
    while True:
        wider_miss = missed + 2 * math.comb(tries, place + 1) * 0.5**tries
        if 1 - wider_miss < LEAST_CONFIDENCE or place + 1 >= tries - 1 - (place + 1):
            return ordered[place], ordered[tries - 1 - place], max(0.0, 1 - missed)
        missed, place = wider_miss, place + 1


def _told(bare: Cost, through: Cost) -> dict[str, object]:
    return {
        "overhead_pct": round(100 * (through.per_decision_s / bare.per_decision_s - 1), 2),
        "bare_us": round(1e6 * bare.per_decision_s, 2),
        "through_us": round(1e6 * through.per_decision_s, 2),
        "core_us": round(1e6 * through.core_per_decision_s, 2),
        "once_bare_s": round(bare.once_s, 2),
        "once_through_s": round(through.once_s, 2),
    }


def _pair(bench: Bench, number: int, spec: dict[str, object]) -> tuple[Cost, Cost]:
    if number % 2:
        through = _through(bench, spec)
        return _bare(spec), through
    bare = _bare(spec)
    return bare, _through(bench, spec)


def _bare(spec: dict[str, object]) -> Cost:
    """Train with the trainer alone, started as the core starts a job."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as workspace:
        folder = Path(workspace)
        for name in ("code", "inputs", "checkpoints", "results", "tmp"):
            (folder / name).mkdir()
        (folder / "spec.json").write_text(canonical_text(spec))
        output = folder / "output"
        command = [sys.executable, "-u", "-m", "bench._bare_trainer", workspace]
        environment = job_environment(folder, "bare", None)
        with output.open("wb") as stdout:
            process = spawn(command, cwd=ROOT, env=environment, stdout=stdout, stderr=stdout)
        try:
            lower_priority(process.pid)
            with Watch([process.pid]) as watch:
                code = process.wait(LONGEST_S)
        finally:
            process.kill()
            process.wait()
        said = output.read_bytes()
    if code != 0:
        raise BenchFailed(f"the bare trainer ended with {code}: {said.decode(errors='replace')[-500:]}")
    end = decode(said.splitlines()[-1], BareEnd)
    points = [Point(*point) for point in end.points]
    (per_decision,) = per_step(watch.samples, points, FIRST * end.steps, LAST * end.steps)
    return Cost(per_decision_s=per_decision, core_per_decision_s=0.0, once_s=end.cpu_seconds - per_decision * end.steps)


def _through(bench: Bench, spec: dict[str, object]) -> Cost:
    """Train through the worker; its own processes are watched, and nothing asks it anything meanwhile."""
    bench.wait_idle()
    core = psutil.Process(bench.core.pid)
    before = tree_cpu_s(core)
    job_id = bench.submit(spec)
    bench.wait_job(job_id, lambda job: job.phase == "training", poll_s=0.5)
    below = [process.pid for process in core.children(recursive=True)]
    with Watch([core.pid], below) as watch:
        job = bench.wait_job(job_id, lambda job: job.state == "succeeded", poll_s=0.5)
    bench.wait_idle()
    all_s = tree_cpu_s(core) - before
    points = sorted({Point(point.time, point.step) for point in all_points(bench.client, job_id)})
    core_s, below_s = per_step(watch.samples, points, FIRST * job.step, LAST * job.step)
    per_decision = core_s + below_s
    return Cost(per_decision_s=per_decision, core_per_decision_s=core_s, once_s=all_s - per_decision * job.step)
