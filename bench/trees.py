"""Whole process trees stopped: 4 ranks with 4 loaders each, one child in its own session, one deaf to signals, one that
forked twice with an empty environment.

Targets: each time the slot is free within the grace and 5 s, and nothing of the tree is left; else the exit code is 1.
``--uncontained`` shows what the process group alone does, without a sandbox.
"""

import atexit
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench._stack import Bench, BenchFailed, milliseconds, paired_worker, parser, report_against
from tests.journeys.simulators.forest import PLANTED
from worker_core.control.messages import ModeArgs

GRACE_S = 5.0
TARGET_MS = 1000 * (GRACE_S + 5.0)
_GUARD_S = 120.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--rounds", type=int, default=50, help="trees to plant and stop (default: 50)")
    options.add_argument("--uncontained", action="store_true", help="without bubblewrap")
    asked = options.parse_args(argv)
    if asked.uncontained:
        _hide_bubblewrap()
    freed: list[float] = []
    left = 0
    with paired_worker(allow_uncontained=asked.uncontained) as bench:
        status = bench.core.status()
        for _ in range(asked.rounds):
            seconds, remaining = _round(bench)
            freed.append(seconds)
            left += remaining
    figures: dict[str, object] = {
        "bench": "trees",
        "contained_by": status.containment.by if status else "",
        "rounds": len(freed),
        "tree": PLANTED,
        "left": left,
        **milliseconds(freed),
    }
    return 0 if report_against({"max_ms": TARGET_MS, "left": 0}, figures, json=asked.json) else 1


def _hide_bubblewrap() -> None:
    """Let what is started from here find the few programs that a tree needs, and no other."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-path-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("sh", "env", "setsid", "sleep"):
        (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    os.environ["PATH"] = str(folder)


def _round(bench: Bench) -> tuple[float, int]:
    """Plant a tree and stop it; returns how long until the slot was free, and how much was left then."""
    token = f"tree-{secrets.token_hex(8)}"
    bench.wait_idle()
    job_id = bench.submit(_spec(token))
    bench.wait_job(job_id, lambda job: job.phase == "training" and job.step > 0)
    if len(_alive(token)) < PLANTED:
        raise BenchFailed(f"only {len(_alive(token))} of {PLANTED} processes were planted")
    began = time.monotonic()
    with bench.core.control() as control:
        control.request("mode", ModeArgs(mode="stop"))
    bench.core.wait_until(lambda status: status.job is None, "the slot is free", _GUARD_S)
    seconds, remaining = time.monotonic() - began, len(_alive(token))
    bench.client.cancel(job_id)
    with bench.core.control() as control:
        control.request("mode", ModeArgs(mode="run"))
    return seconds, remaining


def _alive(token: str) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if process.cmdline()[-1:] == [token] and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def _spec(token: str) -> dict[str, object]:
    return {
        "kind": "rl-session",
        "name": "forest",
        "system": {"simulator": {"entry": "forest:ForestPole", "init": {"token": token}}},
        "files": ["forest.py"],
        "training": {"cycles": 1000, "simulators": 1, "decisions_per_cycle": 500, "rollout_fragment_length": 16},
        "ppo": {"minibatch_size": 16, "n_epochs": 1},
        "benchmark": {"episodes_per_scenario": 1},
        "checkpoint": {"grace_seconds": GRACE_S},
    }


if __name__ == "__main__":
    sys.exit(main())
