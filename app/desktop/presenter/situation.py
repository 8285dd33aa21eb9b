"""What the desktop knows at one moment: the link to the core and the last snapshot with its age."""

from dataclasses import dataclass
from enum import Enum

from worker_core.wire.status import WorkerStatus


class Link(Enum):
    """The desktop's tie to the core on this computer."""

    STARTING = "starting"
    """Looking for the core, or starting it."""
    CONNECTED = "connected"
    SILENT = "silent"
    """The core's process is there but does not answer."""
    ENDED = "ended"
    """The core left on purpose."""
    FAILED = "failed"
    """The core could not be started or reached; ``detail`` says why."""
    INCOMPATIBLE = "incompatible"
    """The running core speaks another version of the control channel."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Input of every decision about what to show."""

    link: Link = Link.STARTING
    detail: str = ""
    status: WorkerStatus | None = None
    """The last snapshot; it outlives a lost link, so that its age can be shown."""
    age_s: float = 0.0
    """Seconds since ``status`` arrived."""

    @property
    def live(self) -> WorkerStatus | None:
        """The snapshot while it can be trusted, that is while the core is connected."""
        return self.status if self.link is Link.CONNECTED else None
