"""Whole stories through real processes: a coordinator, cores and their jobs, steered as people and scripts would."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from app.cli.bundle import CODE_INPUT, pack
from app.cli.client import CoordinatorClient
from app.cli.credentials import Credentials
from app.cli.job_views import all_points
from app.cli.local_stack import LocalCoordinator, LocalCore
from app.cli.pairing_commands import pair_through_core
from worker_core.control.messages import PairArgs
from worker_core.wire.client import JobView, MetricPoint
from worker_core.wire.pairing import PairingApproval, normalise_user_code
from worker_core.wire.spec import canonical_text, parse_spec
from worker_core.wire.status import PairingShown, WorkerStatus
from worker_core.wire.vocabulary import JOB_END_STATES

T = TypeVar("T")
EMAIL, PASSWORD = "owner@example.org", "a long enough password"
GUARD_S = 180.0
"""No step of a story takes this long; a story that hangs ends here."""

SETTINGS = """
pairing_interval_s = 0.2
pairing_s = {pairing_s}
reaper_s = 0.5
lost_not_before_s = 1.0

[worker]
heartbeat_s = 1.0
events_flush_s = 0.3
retry_cap_s = 2.0
bulk_retry_cap_s = 2.0
reconnect_spread_s = 0.2
"""


def job_spec(name: str, **more: object) -> dict[str, object]:
    """A CartPole job of 8,000 decisions, over in a second or two."""
    return {
        "kind": "rl-session",
        "name": name,
        "system": {"simulator": {"entry": "gymnasium:CartPole-v1"}},
        "training": {"cycles": 4, "simulators": 4, "decisions_per_cycle": 500},
        "benchmark": {"episodes_per_scenario": 3},
        **more,
    }


def paced_spec(name: str, *, decisions: int = 1_000_000) -> dict[str, object]:
    """A job that makes some 300 decisions a second, however fast or busy the machine, and saves often.

    As it is, a million decisions take longer than any test.
    """
    return {
        **job_spec(name),
        "system": {"simulator": {"entry": "paced:PacedPole"}},
        "files": ["paced.py"],
        "training": {
            "cycles": -(-decisions // 1000),
            "simulators": 2,
            "decisions_per_cycle": 500,
            "rollout_fragment_length": 16,
        },
        "ppo": {"minibatch_size": 32, "n_epochs": 2},
        "benchmark": {"episodes_per_scenario": 1},
        "checkpoint": {"every_minutes": 0.01},
    }


SIMULATORS = Path(__file__).parent / "simulators"
"""The user's code of :func:`paced_spec`."""


def eventually(look: Callable[[], T | None], what: str, longest_s: float = GUARD_S) -> T:
    """Return what ``look`` returns once it is neither None nor False."""
    give_up = time.monotonic() + longest_s
    while time.monotonic() < give_up:
        found = look()
        if found is not None and found is not False:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {longest_s:.0f} s")


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        """The JSON documents of a stream, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def run_command(command: list[str], environment: dict[str, str], *, typed: str = "") -> Ran:
    """Run a command of ours to its end."""
    done = subprocess.run(command, env=environment, input=typed, capture_output=True, text=True, timeout=GUARD_S)
    return Ran(done.returncode, done.stdout, done.stderr)


def stoker(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "app.entry", *words]


@dataclass
class Worker:
    """A paired worker: its core, and commands typed on its machine."""

    stack: "Stack"
    name: str
    home: Path
    core: LocalCore

    def command(self, *words: str) -> Ran:
        """Run `stoker …` on the worker's machine, signed in as its owner."""
        return self.stack.command(*words, home=self.home)

    def wait(self, wanted: Callable[[WorkerStatus], bool], what: str, longest_s: float = GUARD_S) -> WorkerStatus:
        return self.core.wait_until(wanted, what, longest_s)

    def restart(self) -> None:
        """Start a new core in the same home."""
        self.core = self.stack.start_core(self.home)

    def job_processes(self) -> list[psutil.Process]:
        """Everything that runs below the core."""
        return psutil.Process(self.core.pid).children(recursive=True)


@dataclass
class Stack:
    """A coordinator with one account, and its workers."""

    folder: Path
    coordinator: LocalCoordinator
    token: str
    client: CoordinatorClient
    cores: list[LocalCore] = field(default_factory=list[LocalCore])

    def environment(self, home: Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STOKER_")}
        mine = {"STOKER_HOME": str(home), "STOKER_CREDENTIAL_STORE": "file"}
        return {**kept, **mine, "STOKER_COORDINATOR": self.coordinator.url, "STOKER_TOKEN": self.token}

    def command(self, *words: str, home: Path | None = None, typed: str = "") -> Ran:
        """Run `stoker …` with the owner's token."""
        return run_command(stoker(*words), self.environment(home or self.folder / "elsewhere"), typed=typed)

    def start_core(self, home: Path) -> LocalCore:
        core = LocalCore(home)
        self.cores.append(core)
        core.wait_ready()
        return core

    def worker(self, name: str) -> Worker:
        """Start a core, pair it, approve it, and wait until it is available."""
        home = self.folder / name
        core = self.start_core(home)

        def approve(shown: PairingShown) -> None:
            found = self.client.lookup(normalise_user_code(shown.user_code))
            assert found.fingerprint == shown.fingerprint
            approval = PairingApproval(
                name=name, job_scopes=("any",), authorization_s=86400, fingerprint_confirmed=True
            )
            self.client.approve(found.pairing_id, approval)

        with core.control() as control:
            outcome = pair_through_core(control, PairArgs(coordinator=self.coordinator.url, email=EMAIL), approve)
        assert outcome.state == "approved", outcome
        worker = Worker(self, name, home, core)
        worker.wait(lambda status: status.state == "available", "the worker is available")
        return worker

    def submit(self, spec: dict[str, object]) -> str:
        """Queue a job; its files lie beside the simulators of these stories."""
        bundle = pack(parse_spec(spec).files, SIMULATORS)
        inputs = (self.client.upload(CODE_INPUT, bundle.data),) if bundle else ()
        return self.client.submit(canonical_text(spec), inputs)

    def wait_job(self, job_id: str, wanted: Callable[[JobView], bool], what: str) -> JobView:
        def look() -> JobView | None:
            job = self.client.job(job_id)
            return job if wanted(job) else None

        try:
            return eventually(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; the job is {self.client.job(job_id)}") from error

    def wait_end(self, job_id: str) -> JobView:
        return self.wait_job(job_id, lambda job: job.state in JOB_END_STATES, "the job ends")

    def wait_training(self, job_id: str, *, beyond: int = 0) -> JobView:
        """Wait until a job trains and has a checkpoint beyond a step on the coordinator."""

        def look() -> JobView | None:
            steps = [item.step or 0 for item in self.client.artifacts(job_id) if item.kind == "checkpoint"]
            return self.client.job(job_id) if max(steps, default=0) > beyond else None

        return eventually(look, "a checkpoint of the running job arrives")

    def points(self, job_id: str) -> list[MetricPoint]:
        return list(all_points(self.client, job_id))

    def saved_step(self, job_id: str) -> int:
        """The step of the newest checkpoint that the coordinator has."""
        return max(item.step or 0 for item in self.client.artifacts(job_id) if item.kind == "checkpoint")

    def wait_steps_of(self, job_id: str, attempt: int) -> list[int]:
        """Wait until metric points of an attempt have arrived and return their steps."""

        def look() -> list[int] | None:
            return [point.step for point in self.points(job_id) if point.attempt == attempt] or None

        return eventually(look, f"metrics of attempt {attempt} arrive")

    def end(self) -> None:
        self.client.close()
        for core in self.cores:
            core.end(grace_s=1.0)
        self.coordinator.end(grace_s=5.0)


def start_stack(folder: Path, *, pairing_s: float = 900) -> Stack:
    """Start a coordinator with one account."""
    coordinator = LocalCoordinator(folder, SETTINGS.format(pairing_s=pairing_s))
    try:
        coordinator.add_account(EMAIL, PASSWORD)
        token = coordinator.add_token(EMAIL)
    except BaseException:
        coordinator.end()
        raise
    client = CoordinatorClient.signed_in(Credentials(coordinator.url, token))
    return Stack(folder, coordinator, token, client)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    started = start_stack(tmp_path)
    try:
        yield started
    finally:
        started.end()
