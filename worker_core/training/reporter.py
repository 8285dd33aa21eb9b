"""What a running job tells the core, and how often: phase, progress, time left, metrics, log lines.

Every status comes from the loop that does the work, never from a side thread: silence then means that the work stands
still. ``tick`` is cheap enough to be called once for each step of the simulators.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from worker_core.training.channel import Channel
from worker_core.training.failures import LeaveNow
from worker_core.training.files import sha256_of
from worker_core.training.health import Finding
from worker_core.training.numbers import read_number
from worker_core.training.stall import StallWatch, StepTimes
from worker_core.wire.codec import Number, number_to_wire
from worker_core.wire.durations import format_duration
from worker_core.wire.events import MAX_LINE_BYTES, CheckpointSaved, Flag, Log, Metric, Status
from worker_core.wire.frames import ArtifactReady
from worker_core.wire.spec import HealthRule

STATUS_EVERY_S = 1.0
_MOST_WARNINGS = 100


def _unknown() -> float | None:
    return None


class Reporter:
    """The job's voice. ``step`` counts decisions of the whole job, over all its attempts."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.step = 0
        self.ticked_at = 0.0
        """When the last step ended, by ``time.monotonic``."""
        self._ticks = 0
        self._times = StepTimes()
        self._watch: StallWatch | None = None
        self._warned: set[str] = set()
        self._phase = "starting"
        self._share_from, self._share_to = 0.0, 0.0
        self._next_status = 0.0
        self._said_at = 0.0

    def watch_for_stalls(self, rule: HealthRule) -> None:
        """Notice from now on when no step ends for too long."""
        self._watch = StallWatch(
            self,
            self._times,
            rule.stall_seconds,
            is_excused=lambda: self.channel.is_sending,
            on_stall=lambda step, seconds: self._tell_stall(step, seconds, rule),
            on_recovery=lambda seconds: self.log(f"the job goes on after {format_duration(seconds)} without a step"),
        )
        self._watch.start()

    def close(self) -> None:
        """End what watches."""
        if self._watch is not None:
            self._watch.close()

    def begin(self, phase: str, step: int, share: tuple[float, float]) -> None:
        """Enter a phase that covers this share of the whole job."""
        self._phase = phase
        self._share_from, self._share_to = share
        self.ticked_at = time.monotonic()
        self._say(step, 0.0, None)

    def tick(self, step: int, done: float, time_left: Callable[[], float | None] = _unknown) -> None:
        """Report that work went on: ``done`` is the share of the phase. Raises LeaveNow when time is up."""
        now = time.monotonic()
        self.step, self.ticked_at = step, now
        self._ticks += 1
        self.leave_in_time()
        if now >= self._next_status:
            self._times.add(now - self._said_at, self._ticks)
            self._say(step, done, time_left())

    def leave_in_time(self) -> None:
        """Raise LeaveNow when time is up; for waiting, which is no work that goes on."""
        work_until = self.channel.work_until
        if work_until is not None and time.monotonic() > work_until:
            raise LeaveNow

    def leaving(self) -> bool:
        """Whether the job was told to leave."""
        return self.channel.leave_by is not None

    def metrics(self, step: int, values: Mapping[str, object]) -> None:
        """Report values of one step. Non-finite ones are kept; what is no number is left out, which is said once."""
        wired: dict[str, Number] = {}
        for name, value in values.items():
            number = read_number(value)
            if number is None:
                self._warn_once(name, value)
            else:
                wired[name] = number_to_wire(number)
        if wired:
            self.channel.send(Metric(ts=time.time(), step=step, values=wired))

    def flag(self, step: int, finding: Finding) -> None:
        """Report that training goes wrong."""
        flag = Flag(ts=time.time(), step=step, flag=finding.flag, text=finding.text[:500], action=finding.action)
        self.channel.send(flag)

    def log(self, text: str) -> None:
        """Say something to the person who reads the job's log."""
        for line in text.splitlines():
            cut = line.encode()[:MAX_LINE_BYTES].decode(errors="ignore")
            self.channel.send(Log(ts=time.time(), stream="stoker", text=cut))

    def checkpoint(self, artifact: ArtifactReady) -> int:
        """Announce a checkpoint that is complete on disk; returns the id that tells when the core holds it."""
        step = artifact.step or 0
        self.channel.send(CheckpointSaved(ts=time.time(), step=step, sha256=artifact.sha256, size=artifact.size))
        return self.channel.send(artifact)

    def checkpoint_ordered(self) -> bool:
        """Whether the core asked for a checkpoint since the last question."""
        return self.channel.take_checkpoint_order()

    def result(self, artifact: ArtifactReady) -> None:
        """Announce a result that is complete on disk."""
        self.channel.send(artifact)

    def deliver_log(self, folder: Path) -> None:
        """End the session log and announce it as the last result: what comes after it is not in it."""
        log = self.channel.end_record()
        if log is not None:
            path = log.path
            size, sha256 = path.stat().st_size, sha256_of(path)
            relative = f"{folder.name}/{path.name}"
            self.result(ArtifactReady(name=path.name, kind="result", path=relative, sha256=sha256, size=size))

    def is_kept(self, announced: int) -> bool:
        """Whether the core holds what was announced under this id."""
        return self.channel.is_acked(announced)

    def _say(self, step: int, done: float, eta_s: float | None) -> None:
        self._said_at = time.monotonic()
        self._next_status = self._said_at + STATUS_EVERY_S
        self._ticks = 0
        share = self._share_from + (self._share_to - self._share_from) * min(1.0, max(0.0, done))
        eta = None if eta_s is None else max(0.0, eta_s)
        self.channel.send(Status(ts=time.time(), phase=self._phase, step=step, progress=share, eta_s=eta))

    def _tell_stall(self, step: int, seconds: float, rule: HealthRule) -> None:
        text = f"the job stands still: no step for {format_duration(seconds)} in the phase {self._phase!r}"
        self.flag(step, Finding("stall", text, rule.stall))

    def _warn_once(self, name: str, value: object) -> None:
        if name not in self._warned and len(self._warned) < _MOST_WARNINGS:
            self._warned.add(name)
            shown = f"{value!r:.60}" if isinstance(value, (str, type(None))) else f"a {type(value).__name__}"
            self.log(f"the metric {name[:200]!r} is left out where it is no number, such as {shown}")
