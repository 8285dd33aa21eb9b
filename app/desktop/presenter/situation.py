"""What the desktop knows at one moment: the link to the core and the last snapshot with its age."""

from dataclasses import dataclass
from enum import Enum

import msgspec

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
        """The snapshot, brought up to now, while it can be trusted, that is while the core is connected."""
        if self.status is None or self.link is not Link.CONNECTED:
            return None
        return _aged(self.status, self.age_s)


def _aged(status: WorkerStatus, age_s: float) -> WorkerStatus:
    """Let the times of a snapshot run on: the core tells them anew only when something changes."""
    pairing, job = status.pairing, status.job
    if pairing is not None:
        pairing = msgspec.structs.replace(pairing, expires_in_s=max(0.0, pairing.expires_in_s - age_s))
    if job is not None and job.eta_s is not None:
        job = msgspec.structs.replace(job, eta_s=max(0.0, job.eta_s - age_s))
    contact_age_s = None if status.contact_age_s is None else status.contact_age_s + age_s
    return msgspec.structs.replace(status, pairing=pairing, job=job, contact_age_s=contact_age_s)
