"""What the benchmarks of the whole system share: a coordinator and a paired worker, and one way to print figures."""

import argparse
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from app.cli.bundle import CODE_INPUT, pack
from app.cli.client import CoordinatorClient
from app.cli.demo import Demo
from app.cli.interrupts import handled, interrupts
from app.cli.local_stack import LocalCore
from worker_core.machine.paths import find_paths
from worker_core.wire.client import JobView
from worker_core.wire.codec import encode
from worker_core.wire.spec import canonical_text, parse_spec
from worker_core.wire.vocabulary import JOB_END_STATES

GUARD_S = 600.0
SIMULATORS = Path(__file__).parents[1] / "tests" / "journeys" / "simulators"


class BenchFailed(Exception):
    """A benchmark cannot be carried out; the text says what went wrong."""


class Bench:
    """A paired worker and the client of its owner."""

    def __init__(self, demo: Demo, core: LocalCore, client: CoordinatorClient) -> None:
        self.demo, self.core, self.client = demo, core, client

    def submit(self, spec: dict[str, object]) -> str:
        """Queue a job; its files lie beside the simulators of the tests."""
        bundle = pack(parse_spec(spec).files, SIMULATORS)
        inputs = (self.client.upload(CODE_INPUT, bundle.data),) if bundle else ()
        return self.client.submit(canonical_text(spec), inputs)

    def wait_job(self, job_id: str, wanted: Callable[[JobView], bool], poll_s: float = 0.05) -> JobView:
        """Return the job once it is as wanted."""
        give_up = time.monotonic() + GUARD_S
        while True:
            job = self.client.job(job_id)
            if wanted(job):
                return job
            self.refuse_ended(job)
            if time.monotonic() > give_up:
                raise BenchFailed(f"{job.name} is {job.state} at step {job.step:,} after {GUARD_S:.0f} s")
            time.sleep(poll_s)

    def refuse_ended(self, job: JobView) -> None:
        """Raise :class:`BenchFailed` when a job that is still needed has ended."""
        if job.state in JOB_END_STATES:
            raise BenchFailed(f"{job.name} ended too early: {job.reason or job.state}")

    def wait_idle(self) -> None:
        """Wait until the worker has no job and may take one."""
        self.core.wait_until(lambda status: status.state == "available" and status.job is None, "the worker is idle")


@contextmanager
def paired_worker(**settings: object) -> Generator[Bench]:
    """Start a coordinator and a worker with these ``settings``, paired as in the demo; end both."""
    home = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    demo = Demo(home)
    config = find_paths(str(home / "worker")).config
    config.mkdir(parents=True)
    (config / "settings.json").write_bytes(encode(settings))
    with interrupts():
        try:
            demo.start()
            demo.pair(lambda shown: None)
            assert demo.core is not None
            assert demo.client is not None
            yield Bench(demo, demo.core, demo.client)
        finally:
            # A second Ctrl-C does not leave half of it behind.
            with handled(signal.SIG_IGN, "SIGINT", "SIGTERM", "SIGHUP"):
                demo.end()
                shutil.rmtree(home, ignore_errors=True)


def cartpole(name: str, decisions: int) -> dict[str, object]:
    """Return a CartPole job of about so many decisions, with the settings of the example."""
    return {
        "kind": "rl-session",
        "name": name,
        "system": {"simulator": {"entry": "gymnasium:CartPole-v1"}},
        "training": {
            "cycles": max(1, -(-decisions // 8000)),
            "simulators": 8,
            "total_steps": decisions,
            "rollout_fragment_length": 128,
        },
        "benchmark": {"episodes_per_scenario": 1},
    }


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def milliseconds(values: Sequence[float]) -> dict[str, float]:
    """Return median, 99th percentile and extremes in milliseconds."""
    return {
        "p50_ms": round(1000 * statistics.median(values), 1),
        "p99_ms": round(1000 * quantile(values, 0.99), 1),
        "min_ms": round(1000 * min(values), 1),
        "max_ms": round(1000 * max(values), 1),
    }


def tree_cpu_s(process: psutil.Process) -> float:
    """Return the processor time of a process and of its children that have ended."""
    times = process.cpu_times()
    return times.user + times.system + times.children_user + times.children_system


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser that knows ``--json``."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", action="store_true", help="print one JSON object a line and nothing else")
    return made


def report(document: dict[str, object], *, json: bool) -> None:
    """Print one result."""
    if json:
        sys.stdout.write(encode(document).decode() + "\n")
    else:
        sys.stdout.write("  ".join(f"{name}={value}" for name, value in document.items()) + "\n")
    sys.stdout.flush()


def report_against(limits: Mapping[str, float], document: dict[str, object], *, json: bool) -> bool:
    """Print one result with the verdict on it: whether every figure named in ``limits`` is at most its limit."""
    within = all(isinstance(value := document[name], int | float) and value <= limits[name] for name in limits)
    report({**document, "within_targets": within}, json=json)
    return within
