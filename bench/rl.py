"""The race: Stoker's engine against Stable-Baselines3 on the same work, on this machine, in turns.

    python3 dev.py bench rl [--quick] [--work W1 W2 W2ms W3] [--rounds N] [--json]

The peers get an environment of their own, made at the first run. Each contender runs with one thread for each process
(more slow the peers down on networks of this size), in turns, so that what else the machine does hits all alike; what
is told is the median. `fraction_of_limit` compares with all cores doing nothing but simulating and the networks'
arithmetic. With --json one object a line; the exit code is 1 when a ratio was missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench._rl_works import WORKS

PACKAGES = (("torch==2.13.0",), ("stable-baselines3==2.9.2", "gymnasium[mujoco]==1.4.0"))
TARGETS = {"W1": 8.0, "W2": 3.0, "W2ms": 2.05, "W3": 9.5}
"""How many times as fast as Stable-Baselines3."""
PEERS = {"W1": ("sb3",), "W2": ("sb3", "sb3-subproc"), "W2ms": ("sb3", "sb3-subproc"), "W3": ("sb3",)}
_ROOT = Path(__file__).parents[1]
_ENVIRONMENT = _ROOT / ".venv" / "peers"
_RUN_S = 1800.0


class _Arguments(argparse.Namespace):
    quick: bool
    work: list[str]
    rounds: int
    json: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the race; returns the exit code."""
    parser = argparse.ArgumentParser(description="Stoker's engine against Stable-Baselines3.")
    parser.add_argument("--quick", action="store_true", help="fewer steps, and one peer only")
    parser.add_argument("--work", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments, namespace=_Arguments())
    python = peers_python()
    reached = True
    for name in asked.work:
        for row in race(name, python, asked.rounds, quick=asked.quick):
            sys.stdout.write((json.dumps(row) if asked.json else in_words(row)) + "\n")
            sys.stdout.flush()
            reached &= row["peer"] != "stoker" or float(row["ratio_sb3"]) >= TARGETS[name]
    return 0 if reached else 1


def peers_python() -> Path:
    """Return the Python of the peers, with their packages."""
    python = _ENVIRONMENT / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not (_ENVIRONMENT / "complete").exists():
        sys.stderr.write("bench rl: making an environment for the peers (once, some minutes)\n")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(_ENVIRONMENT)], check=True)
        for packages in PACKAGES:
            command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
            subprocess.run(command, check=True, stdout=sys.stderr)
        (_ENVIRONMENT / "complete").touch()
    return python


def race(name: str, python: Path, rounds: int, *, quick: bool) -> list[dict[str, str | float]]:
    """Run all contenders of one work in turns and return a row for each."""
    steps = WORKS[name].quick_steps if quick else WORKS[name].steps
    ours = [sys.executable, "-m", "bench._rl_stoker", name]
    commands = {
        peer: [str(python), str(_ROOT / "bench" / "_rl_peers.py"), name, peer, str(steps)]
        for peer in PEERS[name][: 1 if quick else None]
    } | {"stoker": [*ours, str(steps)]}
    told: dict[str, list[dict[str, float]]] = {peer: [] for peer in commands}
    limits: list[float] = []
    for turn in range(1, rounds + 1):
        limits.append(run([*ours, "limit"])["steps_per_s"])
        for peer, command in commands.items():
            told[peer].append(run([*command, str(turn)]))
    speeds = {peer: statistics.median(one["steps_per_s"] for one in runs) for peer, runs in told.items()}
    return [
        {
            "work": name,
            "peer": peer,
            "steps_per_s": round(speeds[peer], 1),
            "ratio_sb3": round(speeds[peer] / speeds["sb3"], 2),
            "fraction_of_limit": round(speeds[peer] / statistics.median(limits), 3),
            "final_return": round(statistics.median(one["final_return"] for one in runs), 2),
            "rss_mb": round(max(one["rss_mb"] for one in runs), 1),
        }
        for peer, runs in told.items()
    ]


def run(command: Sequence[str]) -> dict[str, float]:
    """Run one contender alone, and return its line with the most memory that its processes shared out among them."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=_ROOT, env=os.environ | threads, stdout=said, stderr=errors, start_new_session=True
        )
        hand_on_priority(process.pid)
        most, ends_at = 0.0, time.monotonic() + _RUN_S
        try:
            while process.poll() is None:
                most = max(most, shared_out_mb(process.pid))
                if time.monotonic() > ends_at:
                    raise TimeoutError(f"{' '.join(command)} took more than {_RUN_S:g} s")
                time.sleep(0.3)
        finally:
            end_tree(process)
        said.seek(0)
        lines = said.read().splitlines()
        if process.returncode != 0 or not lines:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed: {errors.read()[-500:].strip()}")
        return json.loads(lines[-1]) | {"rss_mb": most}


def hand_on_priority(pid: int) -> None:
    """Give a contender our own priority where the kernel groups processes by session, in which nice counts only."""
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists() and os.nice(0) != 0:
        group.write_text(str(os.nice(0)))


def shared_out_mb(pid: int) -> float:
    """Return the memory of a process and all below it; what several share is counted once (PSS; elsewhere RSS)."""
    total = 0
    try:
        top = psutil.Process(pid)
        for process in (top, *top.children(recursive=True)):
            used = process.memory_full_info()
            total += getattr(used, "pss", used.rss)
    except psutil.Error:
        return 0.0  # it ended while we looked
    return total / 2**20


def end_tree(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """End a contender that did not end by itself, with all it started."""
    if process.poll() is not None:
        return
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        below = []
    for one in below:
        one.kill()
    process.kill()
    process.wait()


def in_words(row: dict[str, str | float]) -> str:
    """Return a row for a person."""
    return (
        f"{row['work']:<5} {row['peer']:<12} {row['steps_per_s']:>10,.0f} steps/s  {row['ratio_sb3']:>5.2f} x SB3  "
        f"{row['fraction_of_limit']:>6.1%} of the limit  return {row['final_return']:>8.1f}  {row['rss_mb']:>6.0f} MB"
    )


if __name__ == "__main__":
    sys.exit(main())
