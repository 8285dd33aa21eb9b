"""When a job has to be told to stop, and when it has to be ended: pure, fed with the time that passed.

The time is what the core really watched. A core that was itself blocked, or a machine that slept, counts one step at
most, so that no job is ended for a silence nobody could have heard.
"""

from dataclasses import dataclass
from typing import Literal

from worker_core.wire.work import Limits

MAX_STEP_S = 1.0

Cause = Literal["asked", "left", "silence", "stalled", "runtime", "disk", "memory", "processes", "broken", "full"]
"""Why a job was stopped or ended: asked for; unasked, by its own last word; no frame came; no step; too long; wrote too
much; used too much memory; started too many processes; wrote no frames; disk full."""

Action = Literal["order-stop", "kill"]


@dataclass(frozen=True)
class Use:
    """What a job's tree and workspace use now."""

    disk_bytes: int = 0
    memory_bytes: int = 0
    processes: int = 0


NO_USE = Use()


@dataclass
class Watch:
    """What is counted for one running job."""

    limits: Limits
    max_memory_bytes: int | None = None
    max_processes: int | None = None
    silent_s: float = 0.0
    running_s: float = 0.0
    cause: Cause | None = None
    grace_s: float = 0.0
    killed: bool = False

    def heard(self) -> None:
        """A frame came, or one is being worked on."""
        self.silent_s = 0.0

    def tick(self, passed_s: float, use: Use = NO_USE) -> Action | None:
        """Count ``passed_s`` and say what is due now."""
        step = min(passed_s, MAX_STEP_S)
        self.silent_s += step
        self.running_s += step
        if self.max_memory_bytes is not None and use.memory_bytes > self.max_memory_bytes:
            return self.kill("memory")
        if self.max_processes is not None and use.processes > self.max_processes:
            return self.kill("processes")
        if self.cause is not None:
            self.grace_s -= passed_s
            return self._kill() if self.grace_s <= 0 else None
        if self.silent_s > self.limits.silence_s:
            self.cause = "silence"
            return self._kill()
        if self.running_s > self.limits.max_runtime_s:
            return self.stop("runtime", self.limits.stop_grace_s)
        if use.disk_bytes > self.limits.max_disk_bytes:
            return self.stop("disk", self.limits.stop_grace_s)
        return None

    def stop(self, cause: Cause, grace_s: float) -> Action | None:
        """Let the job save and leave within ``grace_s``; a second wish can only shorten the grace."""
        if self.cause is not None:
            self.grace_s = min(self.grace_s, grace_s)
            if (self.cause, cause) == ("left", "asked"):
                self.cause = cause  # a computer that shuts down tells the job and us, in any order
            return None
        self.cause, self.grace_s = cause, grace_s
        return "order-stop"

    def kill(self, cause: Cause = "asked") -> Action | None:
        """End the job at once."""
        if self.cause is None:
            self.cause = cause
        return self._kill()

    def _kill(self) -> Action | None:
        if self.killed:
            return None
        self.killed = True
        return "kill"
