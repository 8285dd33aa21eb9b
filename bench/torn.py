"""Kills a job at random moments around a save of its checkpoint; each time another attempt goes on from what is kept.

The kills come in chains: an attempt that was resumed is killed again, the last of a chain runs to its end. Every one
must load a whole checkpoint, and the last must have the weights of a run that was never killed. Target: all of them,
else the exit code is 1. What a kill left of an unfinished save is counted; nobody takes it for a checkpoint.
"""

import asyncio
import hashlib
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench._stack import BenchFailed, milliseconds, parser, report, report_against
from worker_core.jobs.attempt import AttemptRun
from worker_core.jobs.blobs import blob_path
from worker_core.jobs.process import MARK
from worker_core.jobs.runtime import find_runtime
from worker_core.jobs.workspace import workspace_path
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, AttemptRow, NewAttempt
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.clocks import SystemClock
from worker_core.machine.paths import find_paths
from worker_core.wire.ids import new_id
from worker_core.wire.spec import attempt_limits, canonical_text, parse_spec
from worker_core.wire.work import Accepted, Lease, ResumePoint

GUARD_S = 300.0
AROUND_SAVES = 2.0
"""The moments lie between the order of a checkpoint and so many times the usual time until it is saved."""
CHAIN = 5
_LOOK_S = 0.002
SPEC: dict[str, object] = {
    "kind": "rl-session",
    "name": "torn",
    "seed": 5,
    "system": {"simulator": {"entry": "gymnasium:CartPole-v1"}},
    "training": {"cycles": 8, "simulators": 2, "rollout_fragment_length": 64},
    "ppo": {"hidden": [256, 256], "n_epochs": 1},
    "benchmark": {"episodes_per_scenario": 1},
    "checkpoint": {"every_minutes": 60},
}


@dataclass
class Tally:
    """What came of all moments."""

    kills: int = 0
    valid: int = 0
    unfinished: int = 0
    """Kills that left a temporary file behind."""
    kept_new: int = 0
    """Kills after which the checkpoint that was being saved was the one to go on from."""
    until_saved_s: list[float] = field(default_factory=list[float])
    faults: list[str] = field(default_factory=list[str])


class Site:
    """A home without a coordinator: attempts run in it one after the other."""

    def __init__(self, home: Path) -> None:
        self.paths = find_paths(str(home))
        private_folder(self.paths.data)
        self.journal = Journal.open(self.paths.state_db, boot_id="bench")
        self._text = canonical_text(SPEC)
        self._limits = attempt_limits(parse_spec(SPEC))
        self._attempts = 0

    async def begin(self, resume: ResumePoint | None = None) -> tuple[str, AttemptRun]:
        """Return the next attempt, not yet running."""
        self._attempts += 1
        accepted = Accepted(
            lease=Lease(epoch=self._attempts, ttl=300),
            spec=self._text,
            job_id="job_1",
            job_name="torn",
            attempt=self._attempts,
            limits=self._limits,
            resume_from=resume,
        )
        row = NewAttempt(
            attempt_id=new_id("att"),
            job_id="job_1",
            job_name="torn",
            kind="rl-session",
            ordinal=self._attempts,
            epoch=self._attempts,
            offer_jws="",
            accepted=accepted,
        )
        await self.journal.add_attempt(row)
        run = AttemptRun(
            row,
            paths=self.paths,
            journal=self.journal,
            runtime=find_runtime(),
            fetch=_no_fetch,
            clock=SystemClock(),
            on_change=lambda: None,
            on_metric=lambda metric: None,
        )
        return row.attempt_id, run

    async def row(self, attempt_id: str) -> AttemptRow:
        """Return what the journal knows of an attempt."""
        found = await self.journal.attempt(attempt_id)
        assert found is not None
        return found

    def weights(self, attempt_id: str) -> str:
        """Return the hash of the policy that an attempt delivered."""
        path = workspace_path(self.paths, attempt_id) / "results" / "policy.safetensors"
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""

    def forget(self, attempt_id: str) -> None:
        """Remove a workspace that is not needed any more."""
        shutil.rmtree(workspace_path(self.paths, attempt_id), ignore_errors=True)


async def tear(site: Site, moments: int, rng: random.Random, say: Callable[[str], None]) -> Tally:
    """Kill and resume so many times and return what came of it."""
    tally = Tally()
    straight, run = await site.begin()
    await _ended(run)
    expected = site.weights(straight)
    if not expected:
        raise BenchFailed("the run that nobody killed delivered nothing")
    while tally.kills < moments:
        await _chain(site, min(CHAIN, moments - tally.kills), expected, rng, tally)
        say(f"{tally.kills} of {moments} kills: {tally.valid} valid resumes")
    return tally


async def _chain(site: Site, kills: int, expected: str, rng: random.Random, tally: Tally) -> None:
    """Kill one job so many times; what is left must end like the run that nobody killed."""
    attempt_id, run = await site.begin()
    whole = 0
    for _ in range(kills):
        point = await _killed(site, attempt_id, run, rng, tally)
        if point is None:
            return
        site.forget(attempt_id)
        attempt_id, run = await site.begin(point)
        whole += 1
    end = await _ended(run)
    if end.outcome == "succeeded" and site.weights(attempt_id) == expected:
        tally.valid += whole
    else:
        why = end.error.message if end.error else "other weights than the run that nobody killed"
        tally.faults.append(f"{attempt_id}, the last of {kills} kills: {why}")
    site.forget(attempt_id)


async def _killed(site: Site, attempt_id: str, run: AttemptRun, rng: random.Random, tally: Tally) -> ResumePoint | None:
    """Kill a running attempt around a save and return what the next one goes on from."""
    running = asyncio.ensure_future(run.run())
    await _until(lambda: _trains(run) or running.done())
    if running.done():
        end = running.result()
        raise BenchFailed(f"a job ended before it was killed: {end.error.message if end.error else end.how}")
    # A first save tells how long one takes now; the second is the one that is disturbed.
    tally.until_saved_s.append(await _saved(run))
    usual_s = statistics.median(tally.until_saved_s)
    before = run.progress.checkpoint_step
    run.checkpoint_now()
    await asyncio.sleep(rng.uniform(0, AROUND_SAVES * usual_s))
    _kill(attempt_id)
    await running
    tally.kills += 1
    row = await site.row(attempt_id)
    tally.unfinished += any((workspace_path(site.paths, attempt_id) / "checkpoints").glob(".*.tmp"))
    kept = row.checkpoint
    if kept is None:
        tally.faults.append(f"{attempt_id}: no checkpoint is left")
        return None
    tally.kept_new += kept.step != before
    if hashlib.sha256(blob_path(site.paths.blobs, kept.sha256).read_bytes()).hexdigest() != kept.sha256:
        tally.faults.append(f"{attempt_id}: the checkpoint of step {kept.step} is torn")
    return ResumePoint(attempt_id=attempt_id, step=kept.step, sha256=kept.sha256, size=kept.size)


def _trains(run: AttemptRun) -> bool:
    return run.progress.label == "training" and run.progress.step > 0


async def _saved(run: AttemptRun) -> float:
    """Order a checkpoint and return after how long it was kept."""
    began = time.monotonic()
    run.checkpoint_now()
    before = run.progress.checkpoint_step
    await _until(lambda: run.progress.checkpoint_step != before)
    return time.monotonic() - began


async def _ended(run: AttemptRun) -> AttemptEnd:
    async with asyncio.timeout(GUARD_S):
        return await run.run()


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(GUARD_S):
        while not holds():  # noqa: ASYNC110 - the moment itself matters, so it is looked for often
            await asyncio.sleep(_LOOK_S)


def _kill(attempt_id: str) -> None:
    """Kill -9 every process of the attempt, as the system's memory killer or a power cut would."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == attempt_id:
                process.send_signal(signal.SIGKILL)
        except (psutil.Error, OSError):
            continue  # it ended just now, or is none of ours


async def _no_fetch(sha256: str, size: int, destination: Path) -> None:
    raise BenchFailed(f"the checkpoint {sha256} ({size} bytes) is not among the blobs, so {destination} stays empty")


async def measure(home: Path, moments: int, seed: int, say: Callable[[str], None]) -> Tally:
    """Run everything in ``home``."""
    site = Site(home)
    try:
        return await tear(site, moments, random.Random(seed), say)
    finally:
        await site.journal.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--moments", type=int, default=100, help="how often the job is killed")
    options.add_argument("--seed", type=int, default=1, help="seed of the moments")
    asked = options.parse_args(argv)
    home = Path(tempfile.mkdtemp(prefix="stoker-torn-"))
    try:
        tally = asyncio.run(measure(home, asked.moments, asked.seed, lambda text: _say(text, asked.json)))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    for fault in tally.faults:
        _say(fault, asked.json)
    figures: dict[str, object] = {
        "bench": "torn-checkpoints",
        "kills": tally.kills,
        "valid_resumes": tally.valid,
        "invalid_resumes": tally.kills - tally.valid,
        "kills_in_a_save": tally.unfinished,
        "kept_the_disturbed_save": tally.kept_new,
        **{f"order_to_saved_{name}": value for name, value in milliseconds(tally.until_saved_s).items()},
    }
    report({"bench": "seed", "seed": asked.seed}, json=asked.json)
    return 0 if report_against({"invalid_resumes": 0}, figures, json=asked.json) else 1


def _say(text: str, is_json: bool) -> None:
    if not is_json:
        sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
