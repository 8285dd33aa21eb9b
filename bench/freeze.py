"""A worker frozen past its lease: another one finishes its job, then it thaws and must not disturb what was done.

Core and job are stopped with SIGSTOP, as a suspended machine is. Targets: the thawed copy of the job is gone within
10 s, every write it tries is refused, and what is stored does not change any more; else the exit code is 1.
"""

import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from app.cli.client import CoordinatorClient
from bench._stack import BenchFailed, milliseconds, parser, report, report_against
from tests.faults import traces
from tests.faults.evidence import JobEvidence, gather
from tests.faults.observer import owners_of_attempts
from tests.faults.plan import PlannedJob, spec_of
from tests.faults.proxy import FaultProxy
from tests.faults.site import Blueprint, Site, Station, wait_for
from worker_core.wire.client import JobView
from worker_core.wire.vocabulary import JOB_END_STATES

TARGET_MS = 10_000.0
_JOB = PlannedJob(at_s=0.0, kind="plain", steps=1600, step_s=0.004, at=0, max_attempts=3, stops_alone=False)
_WRITES = ("events", "artifacts", "complete", "release")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--rounds", type=int, default=3, help="how often to freeze a worker (default: 3)")
    asked = options.parse_args(argv)
    rounds: list[_Round] = []
    with tempfile.TemporaryDirectory(prefix="stk-") as name, FaultProxy() as proxy:
        blueprint = Blueprint(Path(name) / "blueprint", proxy)
        for index in range(asked.rounds):
            proxy.begin(index)
            site = blueprint.build(Path(name) / f"r{index}", stations=2)
            try:
                rounds.append(_Round(site))
            finally:
                site.abandon()
    figures: dict[str, object] = {
        "bench": "freeze",
        "rounds": len(rounds),
        **milliseconds([done.gone_s for done in rounds]),
        "late_writes_refused": sum(done.refused for done in rounds),
        "late_writes_taken": sum(done.taken for done in rounds),
        "stored_changed": sum(done.changed for done in rounds),
    }
    if not asked.json:
        report({"bench": "freeze-answers", "answers": [done.answers for done in rounds]}, json=False)
    limits = {"max_ms": TARGET_MS, "late_writes_taken": 0, "stored_changed": 0}
    return 0 if report_against(limits, figures, json=asked.json) else 1


class _Round:
    """One freeze and thaw."""

    def __init__(self, site: Site) -> None:
        site.start()
        site.wait_available()
        with site.client() as client:
            job_id = site.submit(client, spec_of(_JOB, "frozen"))
            frozen = _await_training(site, client, job_id)
            attempt = client.job(job_id).attempts[-1].id
            stopped = _freeze(frozen)
            _await_end(client, job_id)
            before = _stored(site, client, job_id)
            for process in stopped:
                process.send_signal(signal.SIGCONT)
            thawed = time.monotonic()
            wait_for(lambda: not _processes_of(site, attempt), "the thawed copy ends", 60.0)
            self.gone_s = time.monotonic() - thawed
            wait_for(lambda: _is_idle(frozen), "the thawed worker is idle", 60.0)
            self.changed = int(_stored(site, client, job_id) != before)
        record = site.proxy.record
        late = [item for item in record if item.attempt == attempt and item.sent_at > thawed and item.verb in _WRITES]
        self.answers = [f"{item.verb} {item.status}" for item in late]
        self.taken = sum(item.granted for item in late)
        self.refused = sum(item.status == 409 for item in late)


def _await_training(site: Site, client: CoordinatorClient, job_id: str) -> Station:
    """Wait until a checkpoint of the job has arrived and return where it runs."""
    wait_for(lambda: any(item.kind == "checkpoint" for item in client.artifacts(job_id)), "a checkpoint arrives")
    owner = owners_of_attempts(site.proxy.record)[client.job(job_id).attempts[-1].id]
    return next(station for station in site.stations if station.worker_id == owner)


def _freeze(station: Station) -> list[psutil.Process]:
    assert station.core is not None
    processes = [psutil.Process(station.core.pid), *station.jobs()]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    return processes


def _await_end(client: CoordinatorClient, job_id: str) -> JobView:
    def look() -> JobView | None:
        job = client.job(job_id)
        return job if job.state in JOB_END_STATES else None

    ended = wait_for(look, "the other worker ends the job")
    if ended.state != "succeeded" or len(ended.attempts) < 2:
        raise BenchFailed(f"the job was to be finished by the other worker: {ended}")
    return ended


def _stored(site: Site, client: CoordinatorClient, job_id: str) -> list[object]:
    """Everything the coordinator keeps of a job that a late write could change."""
    held: JobEvidence = gather(site.url, site.token, client, [job_id])[0]
    states = [(attempt.id, attempt.state, attempt.next_seq) for attempt in held.view.attempts]
    return [held.view.state, states, held.events, held.points, held.artifacts, held.digests]


def _processes_of(site: Site, attempt: str) -> list[int]:
    return [trace.pid for trace in traces.living(site.folder, {attempt}) if trace.attempt == attempt]


def _is_idle(station: Station) -> bool:
    status = station.status()
    return status is not None and status.state == "available" and status.job is None and status.outbox.events == 0
