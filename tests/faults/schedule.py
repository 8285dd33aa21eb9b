"""One schedule of faults from start to verdict: carry the plan out, let calm return, wait for rest, and judge."""

import heapq
import itertools
import shutil
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from app.cli.client import CoordinatorClient
from app.cli.errors import CliError
from tests.faults import invariants, traces
from tests.faults.actions import Actions, set_local_mode
from tests.faults.evidence import JobEvidence, gather
from tests.faults.invariants import Counts
from tests.faults.observer import Observer, attempts_in
from tests.faults.plan import Fault, Plan, PlannedJob, spec_of
from tests.faults.secrets import secrets_in
from tests.faults.site import Blueprint, Site, SiteError, Station
from tests.faults.sources import SmallDisk
from worker_core.control.client import ControlFailure
from worker_core.control.endpoint import BadEndpoint
from worker_core.wire.problems import ProblemError
from worker_core.wire.vocabulary import JOB_END_STATES

LOOK_EVERY_S = 0.4
REST_S = 300.0
"""Within this all is at rest after calm has returned, on however crowded a machine."""
FRAGMENT = 32
_SMALL_DISK_MB = 24
_UNSETTLED = ("connecting", "offline", "problem")


@dataclass
class Outcome:
    """What became of one schedule."""

    seed: int
    violations: list[str] = field(default_factory=list[str])
    faults: dict[str, int] = field(default_factory=dict[str, int])
    network: dict[str, int] = field(default_factory=dict[str, int])
    """Requests the proxy harmed, by how."""
    jobs: dict[str, int] = field(default_factory=dict[str, int])
    """Jobs by the state they ended in."""
    attempts: int = 0
    counts: Counts = field(default_factory=Counts)
    recovery_s: float = 0.0
    """From the end of the last fault until every worker was in contact and at work, or idle with nothing to do."""
    rest_s: float = 0.0
    """From there until every job had ended and everything was delivered."""
    wall_s: float = 0.0
    folder: Path | None = None
    """Where everything lies when something was violated."""


class Schedule:
    """Runs one plan on a site built from a blueprint."""

    def __init__(self, plan: Plan, blueprint: Blueprint, folder: Path, stop: threading.Event | None = None) -> None:
        self.plan, self.folder = plan, folder
        self._stop = stop or threading.Event()
        self.outcome = Outcome(plan.seed)
        self._blueprint = blueprint
        self._began = time.monotonic()
        self._log: list[str] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._disks: dict[str, SmallDisk] = {}

    def run(self) -> Outcome:
        """Carry the plan out and judge what is left; never raises for what the site did."""
        self._blueprint.proxy.begin(self.plan.seed)
        try:
            site = self._build()
            try:
                self._run(site)
            except (SiteError, CliError, ProblemError) as error:
                self._violated(f"{type(error).__name__}: {error}")
            except Exception:
                self._violated(f"the campaign itself failed: {traceback.format_exc()}")
            finally:
                site.abandon()
        finally:
            self._settle_folder()
        self.outcome.wall_s = time.monotonic() - self._began
        return self.outcome

    def _build(self) -> Site:
        site = self._blueprint.build(self.folder, self.plan.stations)
        if self.plan.small_disk:
            name = site.stations[0].name
            aside = self.folder / "aside"
            (self.folder / name).rename(aside)
            disk = SmallDisk(self.folder / name, _SMALL_DISK_MB)
            shutil.copytree(aside, self.folder / name, dirs_exist_ok=True)
            shutil.rmtree(aside)
            if disk.mounted:
                self._disks[name] = disk
        return site

    def _run(self, site: Site) -> None:
        site.start()
        site.learn_secrets()
        observer = Observer(site)
        with site.client(attempts=2) as client:
            actions = Actions(site, observer, client, self._tell, self._disks)
            self._carry_out(site, actions)
            calm = time.monotonic()
            self._calm(site, actions)
            self._await_rest(site, observer, client, calm)
            evidence = gather(site.url, site.token, client, observer.jobs)
            self.outcome.faults, self.outcome.network = actions.done, site.proxy.book.hits
            self._judge(site, observer, evidence)
        self._end(site, observer)

    # The storm

    def _carry_out(self, site: Site, actions: Actions) -> None:
        self._began = time.monotonic()
        for index, job in enumerate(self.plan.jobs):
            self._at(job.at_s, lambda job=job, index=index: self._submit(site, actions, job, f"{job.kind}-{index}"))
        for fault in self.plan.faults:
            self._at(fault.at_s, lambda fault=fault: self._befall(actions, fault))
        look_at = 0.0
        while self._agenda:
            self._refuse_to_go_on_when_stopped()
            due, _, act = self._agenda[0]
            now = self._now()
            if due <= now:
                heapq.heappop(self._agenda)
                act()
            elif look_at <= now:
                actions.observer.look(actions.client)
                look_at = now + LOOK_EVERY_S
            else:
                time.sleep(min(due - now, 0.05))

    def _submit(self, site: Site, actions: Actions, job: PlannedJob, name: str) -> None:
        try:
            job_id = site.submit(actions.client, spec_of(job, name))
        except (CliError, ProblemError):
            self._at(self._now() + 0.5, lambda: self._submit(site, actions, job, name))  # a person tries again
            return
        self._tell(f"submitted {name} as {job_id}")
        actions.observer.jobs.append(job_id)

    def _befall(self, actions: Actions, fault: Fault) -> None:
        undo = actions.begin(fault)
        if undo is not None:

            def over() -> None:
                self._tell(f"end of {fault.kind}")
                undo()

            self._at(self._now() + fault.lasts_s, over)

    # Calm

    def _calm(self, site: Site, actions: Actions) -> None:
        """Take away every fault, start what is down, and let people lift what they ordered."""
        self._tell("calm")
        site.proxy.book.put()
        site.start_coordinator()
        for station in site.stations:
            station.start()
            if station.revoked_at is None:
                actions.client.set_mode(station.worker_id, "resume")
                self._insist(lambda station=station: set_local_mode(station, "run"))
        for job_id in actions.observer.jobs:
            job = actions.client.job(job_id)
            if job.name.startswith("endless") and job.state not in JOB_END_STATES:
                self._tell(f"cancel {job.name}")
                actions.client.cancel(job_id)

    def _await_rest(self, site: Site, observer: Observer, client: CoordinatorClient, calm: float) -> None:
        recovered: float | None = None
        while True:
            self._refuse_to_go_on_when_stopped()
            now = time.monotonic()
            observer.look(client)
            if recovered is None and all(_in_contact(site, station, calm) for station in site.stations):
                recovered = now
                self._tell("every worker is in contact")
            waiting = self._what_is_not_at_rest(site, observer)
            if recovered is not None and not waiting:
                break
            if now - calm > REST_S:
                states = [f"{station.name}: {station.status()}" for station in site.stations]
                self._violated(f"no rest within {REST_S:.0f} s: {waiting}; {states}")
                break
            time.sleep(LOOK_EVERY_S)
        self.outcome.recovery_s = (recovered or now) - calm
        self.outcome.rest_s = now - calm
        self._tell("rest")

    def _what_is_not_at_rest(self, site: Site, observer: Observer) -> list[str]:
        left = any(station.revoked_at is None for station in site.stations)
        open_jobs = [view for view in observer.views if view.state not in JOB_END_STATES]
        waiting = [
            f"{view.name} is {view.state}: {view.reason}" for view in open_jobs if left or view.state != "queued"
        ]
        for station in site.stations:
            status = station.status()
            idle = status is not None and status.job is None and status.outbox.events == 0
            wanted = "available" if station.revoked_at is None else "revoked"
            if not idle or status is None or status.state != wanted:
                waiting.append(f"{station.name} is {status.state if status else 'silent'}")
        return waiting

    # The verdict

    def _judge(self, site: Site, observer: Observer, jobs: list[JobEvidence]) -> None:
        counts, record = self.outcome.counts, site.proxy.record
        left = any(station.revoked_at is None for station in site.stations)
        for violated in (
            invariants.ended_jobs(jobs, workers_left=left),
            invariants.one_outcome(jobs),
            invariants.failures_have_a_cause(jobs, self.outcome.faults),
            invariants.fenced(record, counts),
            invariants.each_point_once(jobs, record, counts),
            invariants.whole_series(jobs, FRAGMENT),
            invariants.files_as_written(jobs, counts),
            *(
                invariants.silent_after_revocation(record, station.worker_id, station.revoked_at)
                for station in site.stations
                if station.revoked_at is not None
            ),
        ):
            for what in violated:
                self._violated(what)
        marked = [trace for trace in traces.living(self.folder, observer.attempts) if trace.attempt]
        if marked:
            self._violated(f"processes of jobs live on while every worker is idle: {marked}")
        for job in jobs:
            self.outcome.jobs[job.view.state] = self.outcome.jobs.get(job.view.state, 0) + 1
            self.outcome.attempts += len(job.view.attempts)
            self._tell(
                f"{job.view.name}: {job.view.state} {job.view.reason} attempts {[a.state for a in job.view.attempts]}"
            )

    def _end(self, site: Site, observer: Observer) -> None:
        """End everything in good order; nothing of it may be left anywhere."""
        site.learn_secrets()
        secrets = site.secrets | site.proxy.record.secrets
        codes = site.end(grace_s=60.0)
        if set(codes.values()) != {0}:
            self._violated(f"the parts ended with {codes}")
        for what in observer.violations:
            self._violated(what)
        left = traces.left_alive(self.folder, observer.attempts | attempts_in(site.proxy.record), 5.0)
        if left:
            self._violated(f"processes are left: {left}")
        for name in observer.shared_memory:
            if Path(name).exists():
                self._violated(f"shared memory is left: {name}")
        for path in traces.sockets_below(self.folder):
            self._violated(f"a socket is left: {path}")
        for name in secrets_in(self.folder, secrets):
            self._violated(f"a secret stands in {name}")
        for station in site.stations:
            if station.revoked_at is not None and station.paths.credential_file.exists():
                self._violated(f"the key of {station.name} outlives its revocation")
        for log in (*self.folder.glob("*/core.log"), *self.folder.glob("*/logs/*"), self.folder / "coordinator.log"):
            if log.is_file() and "Traceback (most recent call last)" in log.read_text(errors="replace"):
                self._violated(f"a traceback stands in {log.relative_to(self.folder)}")

    def _settle_folder(self) -> None:
        for disk in self._disks.values():
            if self.outcome.violations:
                disk.empty()
                shutil.copytree(disk.folder, self.folder / f"{disk.folder.name}-kept", ignore=_special_files)
            disk.close()
        if not self.outcome.violations:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        self.outcome.folder = self.folder
        (self.folder / "schedule.log").write_text("\n".join(self._log) + "\n")

    # Small things

    def _refuse_to_go_on_when_stopped(self) -> None:
        if self._stop.is_set():
            raise SiteError("the campaign was called off")

    def _insist(self, act: Callable[[], None], longest_s: float = 60.0) -> None:
        give_up = time.monotonic() + longest_s
        while True:
            try:
                act()
                return
            except (ControlFailure, BadEndpoint, TimeoutError) as error:
                if time.monotonic() > give_up:
                    raise SiteError(f"a worker does not obey: {error}") from error
                time.sleep(0.1)

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (at_s, next(self._order), act))

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _tell(self, what: str) -> None:
        self._log.append(f"{self._now():7.2f} {what}")

    def _violated(self, what: str) -> None:
        self._tell(f"VIOLATION {what}")
        self.outcome.violations.append(what)


def _special_files(folder: str, names: list[str]) -> list[str]:
    """Return what cannot be copied: sockets, pipes, dangling links."""
    return [name for name in names if not ((path := Path(folder, name)).is_file() or path.is_dir())]


def _in_contact(site: Site, station: Station, since: float) -> bool:
    status = station.status()
    if status is None:
        return False
    if station.revoked_at is not None:
        return status.state == "revoked"
    settled = status.state not in _UNSETTLED and "coordinator-unreachable" not in status.reasons
    return settled and site.proxy.record.last_contact(station.worker_id) > since
