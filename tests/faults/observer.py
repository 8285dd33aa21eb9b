"""Looks at a site again and again while faults happen, through /proc and the API, and notes what must never be."""

from dataclasses import dataclass, field

from app.cli.client import CoordinatorClient
from app.cli.errors import CliError
from tests.faults import traces
from tests.faults.record import Record
from tests.faults.site import Site
from tests.faults.traces import Trace
from worker_core.wire.client import JobView
from worker_core.wire.problems import ProblemError
from worker_core.wire.vocabulary import JOB_END_STATES, LIVE_ATTEMPT_STATES


@dataclass
class Observer:
    """What was seen of one site."""

    site: Site
    jobs: list[str] = field(default_factory=list[str])
    """Ids of the jobs to look at."""
    violations: list[str] = field(default_factory=list[str])
    shared_memory: set[str] = field(default_factory=set[str])
    attempts: set[str] = field(default_factory=set[str])
    """Every attempt a process was seen of."""
    views: list[JobView] = field(default_factory=list[JobView])
    """The jobs as they were when they were last seen."""
    looks: int = 0
    _ended: dict[str, str] = field(default_factory=dict[str, str])
    _secrets_told: set[str] = field(default_factory=set[str])

    def look(self, client: CoordinatorClient) -> None:
        """Look once."""
        self.looks += 1
        self.look_at_processes()
        if self.site.coordinator is None or not self.site.coordinator.running:
            return
        try:
            self.views = [client.job(job_id) for job_id in self.jobs]
        except (CliError, ProblemError):
            return  # it is being killed just now
        for job in self.views:
            self._look_at_job(job)

    def look_at_processes(self) -> None:
        """One job at a time on a worker; no secret in arguments, and none in the environment of a job."""
        found = traces.living(self.site.folder, self.attempts | attempts_in(self.site.proxy.record))
        self.attempts |= {trace.attempt for trace in found if trace.attempt}
        self.shared_memory |= traces.shared_memory([trace for trace in found if trace.attempt])
        self._one_job_each(found)
        secrets = [secret.encode() for secret in self.site.secrets | self.site.proxy.record.secrets]
        for trace in found:
            text = trace.argv + (trace.environment if trace.attempt else b"")
            if any(secret in text for secret in secrets):
                self._tell(f"a secret stands in arguments or environment of process {trace.pid}: {trace.argv[:200]!r}")

    def retried(self, job_id: str) -> None:
        """A person let an ended job begin again."""
        self._ended.pop(job_id, None)

    def _one_job_each(self, found: list[Trace]) -> None:
        owners = owners_of_attempts(self.site.proxy.record)
        by_worker: dict[str, set[str]] = {}
        for trace in found:
            if trace.attempt is not None and trace.attempt in owners:
                by_worker.setdefault(owners[trace.attempt], set()).add(trace.attempt)
        for worker, attempts in by_worker.items():
            if len(attempts) > 1:
                self._tell(f"two jobs at once on worker {worker}: {sorted(attempts)}")

    def _look_at_job(self, job: JobView) -> None:
        live = [attempt.id for attempt in job.attempts if attempt.state in LIVE_ATTEMPT_STATES]
        if len(live) > 1:
            self._tell(f"job {job.name} has {len(live)} live attempts: {live}")
        before = self._ended.get(job.id)
        if before is not None and job.state != before:
            self._tell(f"job {job.name} was {before} and is {job.state}")
        if job.state in JOB_END_STATES:
            self._ended.setdefault(job.id, job.state)
            if live:
                self._tell(f"job {job.name} is {job.state} with a live attempt {live}")

    def _tell(self, what: str) -> None:
        if what not in self.violations:
            self.violations.append(what)


def attempts_in(record: Record) -> set[str]:
    """Return every attempt that was accepted."""
    return {item.attempt for item in record if item.attempt and item.verb == "accept"}


def owners_of_attempts(record: Record) -> dict[str, str]:
    """Return which worker accepted each attempt."""
    return {item.attempt: item.worker for item in record if item.attempt and item.worker and item.verb == "accept"}
