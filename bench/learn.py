"""Do the examples learn what they promise? Runs them bare, without core and coordinator, for several seeds.

    python3 dev.py bench learn [--example cartpole|lunar_lander] [--seeds 1 2 3] [--json]

Each run prints one line, with `--json` one JSON object a line; the exit code is 1 when a gate was missed.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from worker_core.wire.frames import Done, FrameSplitter, Order, pack, unpack_frame
from worker_core.wire.spec import canonical_text

EXAMPLES = Path(__file__).parents[1] / "examples"


class Gate(msgspec.Struct, frozen=True):
    """What an example promises: the return after training, and how far it lies above the one before."""

    least_return: float
    least_gain: float | None
    seeds: tuple[int, ...]


GATES = {
    "cartpole": Gate(475, None, (1, 2, 3, 4, 5)),
    "lunar_lander": Gate(200, 250, (1, 2, 3)),
}


class _Arguments(argparse.Namespace):
    example: str | None
    seeds: list[int] | None
    json: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the gates; returns the exit code."""
    parser = argparse.ArgumentParser(description="Learning gates of the examples.")
    parser.add_argument("--example", choices=sorted(GATES))
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments, namespace=_Arguments())
    passed = True
    for name in [asked.example] if asked.example else sorted(GATES):
        for seed in asked.seeds or GATES[name].seeds:
            row = measure(name, seed)
            passed = passed and row["passed"] is True
            print(json.dumps(row) if asked.json else _line(row), flush=True)
    return 0 if passed else 1


def measure(example: str, seed: int) -> dict[str, Any]:
    """Train one example with one seed and compare with its gate."""
    spec = tomllib.loads((EXAMPLES / f"{example}.toml").read_text()) | {"seed": seed}
    workspace = Path(tempfile.mkdtemp(prefix="stoker-learn-"))
    try:
        (workspace / "spec.json").write_text(canonical_text(spec))
        done = run_bare(workspace)
        if done.outcome != "succeeded":
            return {"bench": "learn", "example": example, "seed": seed, "passed": False, "outcome": done.outcome}
        report: dict[str, Any] = json.loads((workspace / "results" / "benchmark.json").read_text())
    finally:
        shutil.rmtree(workspace)
    gate = GATES[example]
    before, after = report["return_before"], report["return_after"]
    enough = after >= gate.least_return and (gate.least_gain is None or after - before >= gate.least_gain)
    return {
        "bench": "learn",
        "example": example,
        "seed": seed,
        "passed": enough,
        "return_before": before,
        "return_after": after,
        "decisions": report["decisions"],
        "steps_per_second": report["steps_per_second"],
        "seconds": round(done.usage.seconds, 1),
        "cpu_seconds": round(done.usage.cpu_seconds, 1),
        "peak_rss_mb": round(done.usage.peak_rss_bytes / 1e6),
    }


def run_bare(workspace: Path) -> Done:
    """Run the job of a workspace as a core would, but acknowledge its frames without keeping them."""
    frames_read, frames_write = os.pipe()
    orders_read, orders_write = os.pipe()
    command = [sys.executable, "-I", "-m", "worker_core.training", "--workspace", str(workspace)]
    descriptors = ["--frames-fd", str(frames_write), "--orders-fd", str(orders_read)]
    process = subprocess.Popen([*command, *descriptors], pass_fds=(frames_write, orders_read), cwd=workspace)
    os.close(frames_write)
    os.close(orders_read)
    done = Done(outcome="failed")
    splitter = FrameSplitter()
    try:
        while data := os.read(frames_read, 65536):
            for frame in map(unpack_frame, splitter.feed(data)):
                with contextlib.suppress(BrokenPipeError):  # a job that died still has frames in the pipe
                    os.write(orders_write, pack(Order(ack=frame.id)))
                done = frame.body if isinstance(frame.body, Done) else done
        process.wait()
    finally:
        process.kill()
        process.wait()
        os.close(frames_read)
        os.close(orders_write)
    return done


def _line(row: dict[str, Any]) -> str:
    verdict = "passed" if row["passed"] else "MISSED"
    if "return_after" not in row:
        return f"{row['example']} seed {row['seed']}: {verdict}, the job ended as {row['outcome']}"
    return (
        f"{row['example']} seed {row['seed']}: {verdict}, return {row['return_before']:.1f} before, "
        f"{row['return_after']:.1f} after, {row['steps_per_second']:,.0f} steps/s, {row['seconds']} s"
    )
