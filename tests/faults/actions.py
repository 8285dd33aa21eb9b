"""Carries out one planned fault on a site: how it begins, and how it ends."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from app.cli.client import CoordinatorClient, ModeVerb
from app.cli.errors import CliError
from tests.faults.observer import Observer
from tests.faults.plan import Fault
from tests.faults.rules import Harm, Rule
from tests.faults.site import Site, Station
from tests.faults.sources import SmallDisk
from worker_core.control.client import ControlFailure
from worker_core.control.endpoint import BadEndpoint
from worker_core.control.messages import ModeArgs
from worker_core.wire.problems import ProblemError
from worker_core.wire.vocabulary import JOB_END_STATES, Mode

Undo = Callable[[], None]
_DAY_S = 86400.0
_LONGEST_DOWN_S = 2.0

_HARMS: dict[str, Harm] = {
    "cut": "blackhole",
    "refuse": "reset",
    "delay": "delay",
    "drop-reply": "drop-reply",
    "cut-reply": "cut-reply",
    "duplicate": "duplicate",
    "portal": "portal",
    "throttle": "throttle",
    "poll-lost": "drop-reply",
}
_CONSOLE: dict[str, ModeVerb] = {"drain": "drain", "stop": "stop", "resume": "resume"}
_HERE: dict[str, tuple[Mode, bool]] = {
    "drain-here": ("drain", False),
    "stop-here": ("stop", False),
    "resume-here": ("run", False),
    "stop-job-here-now": ("stop", True),
}


@dataclass
class Actions:
    """Faults and people, acting on one site."""

    site: Site
    observer: Observer
    client: CoordinatorClient
    tell: Callable[[str], None]
    disks: dict[str, SmallDisk] = field(default_factory=dict[str, SmallDisk])
    done: dict[str, int] = field(default_factory=dict[str, int])
    """How often each kind of fault really happened."""

    def begin(self, fault: Fault) -> Undo | None:
        """Let a fault happen; returns how it ends, or None when it is over at once."""
        try:
            undo = self._begin(fault)
        except _NothingToHit as nothing:
            self.tell(f"{fault.kind}: {nothing}")
            return None
        except (CliError, ProblemError, ControlFailure, BadEndpoint, TimeoutError, psutil.Error) as refused:
            self.tell(f"{fault.kind} was refused: {type(refused).__name__} {refused}")
            return None
        self.done[fault.kind] = self.done.get(fault.kind, 0) + 1
        return undo

    def _begin(self, fault: Fault) -> Undo | None:
        station = self.site.stations[fault.target % len(self.site.stations)]
        self.tell(f"{fault.kind} {station.name} {fault.lasts_s:.1f} s {fault.size:.2f}")
        match fault.kind:
            case "kill-core" | "end-core":
                return self._lose_core(station, fault)
            case "kill-coordinator" | "end-coordinator" | "coordinator-date":
                return self._lose_coordinator(fault)
            case "kill-job":
                return self._kill_job(station, fault)
            case "freeze-worker":
                return self._freeze(station, fault)
            case "full-disk":
                return self._fill_disk(station)
            case "worker-sleeps" | "worker-date" | "coordinator-sleeps":
                return self._move_clock(station, fault)
            case "cancel" | "retry" | "revoke" | "drain" | "stop" | "resume":
                return self._act_in_console(station, fault)
            case "drain-here" | "stop-here" | "resume-here" | "stop-job-here-now":
                return self._act_here(station, fault)
            case _:
                return self._harm_network(station, fault)

    # Processes

    def _lose_core(self, station: Station, fault: Fault) -> Undo:
        core = station.core
        if core is None or not core.running:
            raise _NothingToHit("no core runs")
        if fault.kind == "kill-core":
            core.kill()
        else:
            core.process.terminate()
        began = time.monotonic()

        def restart() -> None:
            while core.running and time.monotonic() < began + 60:
                time.sleep(0.05)  # it was asked to leave and is on its way
            if core.running:
                self.observer.violations.append(f"the core of {station.name} did not leave within 60 s of TERM")
                core.kill()
            elif fault.kind == "end-core" and core.process.returncode not in (0, -signal.SIGKILL):
                self.observer.violations.append(f"the core left with {core.process.returncode} after TERM")
            station.start()

        return restart

    def _lose_coordinator(self, fault: Fault) -> Undo:
        coordinator = self.site.coordinator
        if coordinator is None or not coordinator.running:
            raise _NothingToHit("no coordinator runs")
        if fault.kind == "end-coordinator":
            coordinator.end(grace_s=15.0)
        else:
            coordinator.kill()
        if fault.kind == "coordinator-date":
            self.site.clock.move((fault.size - 0.5) * 2 * _DAY_S)
        return self.site.start_coordinator

    def _kill_job(self, station: Station, fault: Fault) -> None:
        below = station.jobs()
        if not below:
            raise _NothingToHit("no job runs")
        for process in below if fault.size > 0.5 else below[-1:]:
            _signal(process, signal.SIGKILL)

    def _freeze(self, station: Station, fault: Fault) -> Undo:
        if station.core is None or not station.core.running:
            raise _NothingToHit("no core runs")
        core = psutil.Process(station.core.pid)
        frozen = [core] if fault.size < 0.3 else station.jobs() if fault.size < 0.5 else [core, *station.jobs()]
        for process in frozen:
            _signal(process, signal.SIGSTOP)

        def thaw() -> None:
            for process in frozen:
                _signal(process, signal.SIGCONT)

        return thaw

    # Machine

    def _fill_disk(self, station: Station) -> Undo:
        disk = self.disks.get(station.name)
        if disk is not None:
            disk.fill()
            return disk.empty
        station.readings.say(disk_free_bytes=0)
        return lambda: station.readings.say(disk_free_bytes=None)

    def _move_clock(self, station: Station, fault: Fault) -> Undo | None:
        if fault.kind == "worker-sleeps" and fault.target % 2:
            # The system tells beforehand, and gives the worker a moment.
            station.readings.say(power="sleeping")
            return lambda: self._wake(station, fault)
        if fault.kind == "worker-sleeps":
            station.readings.sleep(10 + fault.size * 3600)
        elif fault.kind == "coordinator-sleeps":
            self.site.clock.move(5 + fault.size * 600)
        else:
            station.readings.say(wall_offset_s=(fault.size - 0.5) * 2 * _DAY_S)
            return lambda: station.readings.say(wall_offset_s=0.0)
        return None

    def _wake(self, station: Station, fault: Fault) -> None:
        station.readings.sleep(10 + fault.size * 3600)
        station.readings.say(power="awake")

    # Network

    def _harm_network(self, station: Station, fault: Fault) -> Undo | None:
        proxy = self.site.proxy
        if fault.kind == "reset":
            proxy.reset_lines()
            return None
        whole = fault.kind in ("cut", "refuse", "poll-lost") or fault.size < 0.3
        rule = Rule(
            _HARMS[fault.kind],
            paths="/v1/poll$" if fault.kind == "poll-lost" else "",
            worker=station.worker_id if fault.target % 2 else None,
            share=1.0 if whole else 0.2 + 0.6 * fault.size,
            seconds=0.05 if fault.kind == "throttle" else 0.1 + fault.size,
            count=20 + fault.target % 200,
        )
        proxy.book.add(rule)
        if fault.kind == "cut" and fault.size > 0.5:
            proxy.reset_lines()
        return lambda: proxy.book.remove(rule)

    # People

    def _act_in_console(self, station: Station, fault: Fault) -> None:
        match fault.kind:
            case "cancel":
                self.client.cancel(self._some_job(fault, ended=False))
            case "retry":
                job_id = self._some_job(fault, ended=True)
                self.observer.retried(job_id)
                self.client.retry(job_id)
            case "revoke":
                self.client.revoke(station.worker_id)
                station.revoked_at = time.monotonic()
            case kind:
                self.client.set_mode(station.worker_id, _CONSOLE[kind])

    def _act_here(self, station: Station, fault: Fault) -> None:
        if station.core is None or not station.core.running:
            raise _NothingToHit("no core runs")
        mode, now = _HERE[fault.kind]
        set_local_mode(station, mode, now=now)

    def _some_job(self, fault: Fault, *, ended: bool) -> str:
        states = ("failed", "canceled") if ended else ("queued", "running", "canceling")
        found = [job for job_id in self.observer.jobs if (job := self.client.job(job_id)).state in states]
        if not found:
            raise _NothingToHit("there is no such job")
        chosen = found[fault.target % len(found)]
        assert (chosen.state in JOB_END_STATES) == ended
        return chosen.id


class _NothingToHit(Exception):
    """A fault found nothing it could befall."""


def set_local_mode(station: Station, mode: Mode, *, now: bool = False) -> None:
    """Set the workstation's own mode as its desktop would."""
    assert station.core is not None
    with station.core.control() as control:
        control.request("mode", ModeArgs(mode=mode, now=now), timeout_s=10.0)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
