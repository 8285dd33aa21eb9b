"""What a running job tells the core, and how often: phase, progress, time left, metrics, log lines.

Every status comes from the loop that does the work, never from a side thread: silence then means that the work stands
still. ``tick`` is cheap enough to be called once for each step of the simulators.
"""

import time
from collections.abc import Callable, Mapping

from worker_core.training.channel import Channel
from worker_core.training.failures import LeaveNow
from worker_core.wire.codec import Number, number_to_wire
from worker_core.wire.events import MAX_LINE_BYTES, CheckpointSaved, Log, Metric, Status
from worker_core.wire.frames import ArtifactReady

STATUS_EVERY_S = 1.0


def _unknown() -> float | None:
    return None


class Reporter:
    """The job's voice. ``step`` counts decisions of the whole job, over all its attempts."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._phase = "starting"
        self._share_from, self._share_to = 0.0, 0.0
        self._next_status = 0.0

    def begin(self, phase: str, step: int, share: tuple[float, float]) -> None:
        """Enter a phase that covers this share of the whole job."""
        self._phase = phase
        self._share_from, self._share_to = share
        self._say(step, 0.0, None)

    def tick(self, step: int, done: float, time_left: Callable[[], float | None] = _unknown) -> None:
        """Report that work went on: ``done`` is the share of the phase. Raises LeaveNow when time is up."""
        now = time.monotonic()
        work_until = self.channel.work_until
        if work_until is not None and now > work_until:
            raise LeaveNow
        if now >= self._next_status:
            self._say(step, done, time_left())

    def leaving(self) -> bool:
        """Whether the job was told to leave."""
        return self.channel.leave_by is not None

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Report values of one step; non-finite ones are kept."""
        wired: dict[str, Number] = {name: number_to_wire(float(value)) for name, value in values.items()}
        self.channel.send(Metric(ts=time.time(), step=step, values=wired))

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

    def is_kept(self, announced: int) -> bool:
        """Whether the core holds what was announced under this id."""
        return self.channel.is_acked(announced)

    def _say(self, step: int, done: float, eta_s: float | None) -> None:
        self._next_status = time.monotonic() + STATUS_EVERY_S
        share = self._share_from + (self._share_to - self._share_from) * min(1.0, max(0.0, done))
        eta = None if eta_s is None else max(0.0, eta_s)
        self.channel.send(Status(ts=time.time(), phase=self._phase, step=step, progress=share, eta_s=eta))
