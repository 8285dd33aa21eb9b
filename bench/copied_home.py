"""A worker's home is copied while its job trains: how soon the copy is caught, and whether the original notices.

Three copies: one on a computer with another id, one on the same computer, and one whose computer nobody can tell apart,
which only the coordinator's rules catch. Then a person chooses Keep. Targets: all caught, no copy gets a job, the
original keeps its attempt and goes on training.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from app.cli.demo import EMAIL
from app.cli.local_stack import LocalCore
from bench._stack import Bench, BenchFailed, cartpole, paired_worker, parser, report
from worker_core.wire.status import WorkerStatus

GUARD_S = 300.0
CATCH_S = 30.0
"""Longest time in which each copy has to be caught."""
_NO_RUN = shutil.ignore_patterns("run", "*.sock", "workspaces")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    asked = parser(__doc__ or "").parse_args(argv)
    with paired_worker() as bench:
        figures = _run(bench)
    report(figures, json=asked.json)
    return 0 if figures["within_targets"] else 1


def _run(bench: Bench) -> dict[str, object]:
    original = bench.demo.home / "worker"
    stale = _copy(original, bench.demo.home / "stale")
    _restart(bench, original)  # from here on the original knows a start that the copy does not
    job_id = bench.submit(cartpole("copied", 10_000_000))
    bench.wait_job(job_id, lambda job: job.phase == "training" and job.step > 0)
    attempt, began = bench.client.job(job_id).attempt, bench.client.job(job_id).step

    elsewhere = _caught(bench, _copy(original, bench.demo.home / "elsewhere"), {"machine_id": "another"}, "unpaired")
    here = _caught(bench, _copy(original, bench.demo.home / "here"), None, "problem", own_folder=False)
    with _core(bench, stale, {"machine_id": ""}, own_folder=True) as copy:
        untold_s = _seconds(lambda: copy.wait_until(_in_conflict, "the copy was caught", GUARD_S))
        conflict = bench.client.workers()[0].conflict
        keep_s = _seconds(lambda: _keep(bench))
        shut_out = copy.wait_until(_shut_out, "the copy was shut out", GUARD_S)

    job = bench.wait_job(job_id, lambda job: job.step > began)
    undisturbed = (job.state, job.attempt) == ("running", attempt)
    times = (elsewhere, here, untold_s)
    return {
        "bench": "copied-home",
        "another_computer_caught_s": round(elsewhere, 1),
        "same_computer_caught_s": round(here, 1),
        "by_the_coordinator_caught_s": round(untold_s, 1),
        "conflict": conflict,
        "keep_to_new_key_s": round(keep_s, 1),
        "copy_says": shut_out.detail,
        "original_trained_steps": job.step - began,
        "original_undisturbed": undisturbed,
        "within_targets": undisturbed and bool(conflict) and max(times) <= CATCH_S,
    }


def _restart(bench: Bench, home: Path) -> None:
    bench.core.end()
    bench.demo.core = bench.core = LocalCore(home, "--started-by", "terminal")
    bench.core.wait_ready()
    bench.wait_idle()


def _copy(home: Path, to: Path) -> Path:
    shutil.copytree(home, to, ignore=_NO_RUN)
    return to


def _caught(
    bench: Bench, home: Path, script: Mapping[str, str] | None, state: str, *, own_folder: bool = True
) -> float:
    with _core(bench, home, script, own_folder=own_folder) as copy:
        return _seconds(
            lambda: copy.wait_until(
                lambda status: status.state == state and "copied-home" in status.reasons, "it was caught", GUARD_S
            )
        )


@contextmanager
def _core(bench: Bench, home: Path, script: Mapping[str, str] | None, *, own_folder: bool) -> Generator[LocalCore]:
    """Start the core of a copied home, with a temporary folder of its own where it plays another computer."""
    changes: dict[str, str] = {}
    if own_folder:
        changes["TMPDIR"] = str(home / "tmp")
        (home / "tmp").mkdir(exist_ok=True)
    if script is not None:
        (home / "script.json").write_text(json.dumps(script))
        changes["STOKER_SCRIPTED_SOURCES"] = str(home / "script.json")
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        core = LocalCore(home, "--started-by", "terminal")
    finally:
        os.environ.clear()
        os.environ.update(before)
    try:
        core.wait_ready()
        yield core
    finally:
        core.end()


def _in_conflict(status: WorkerStatus) -> bool:
    return status.state == "problem" and "credential-conflict" in status.reasons


def _shut_out(status: WorkerStatus) -> bool:
    return "cannot-authenticate" in status.reasons


def _keep(bench: Bench) -> None:
    """Choose Keep as a person does, and wait until the original has its new key."""
    coordinator = bench.demo.coordinator
    if coordinator is None:
        raise BenchFailed("there is no coordinator")
    worker = bench.client.workers()[0]
    headers = {"Authorization": f"Bearer {coordinator.add_token(EMAIL)}"}
    answer = httpx.post(f"{coordinator.url}/v1/workers/{worker.id}/keep", headers=headers, trust_env=False, timeout=60)
    answer.raise_for_status()
    give_up = time.monotonic() + GUARD_S
    while bench.client.workers()[0].conflict is not None:
        if time.monotonic() > give_up:
            raise BenchFailed("the original did not change its key")
        time.sleep(0.05)


def _seconds(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began
