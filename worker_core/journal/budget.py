"""How much may wait for the coordinator, and what is done about more: pure, fed with what is used."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["logs", "metrics"]
"""What may go: lines of output, or metrics and progress too, three of four."""

OUTBOX_LIMIT_BYTES = 256 << 20
SHARE_OF_FREE_DISK = 0.05
ROW_BYTES = 64
"""What a row takes in the file beside its event, about."""
_ROOM_AGAIN_SHARE = 0.7
_TARGET_SHARE = 0.8
_THIN_AGAIN_SHARE = 1.05
_METRICS_FROM_SHARE = 0.9
_LOGS_REFUSED_SHARE = 1.1
_METRICS_REFUSED_SHARE = 1.25
_ALL_REFUSED_SHARE = 2.0


def budget_bytes(setting: int, free_bytes: int, used_bytes: int) -> int:
    """Return what may be used: the setting, but no more than a twentieth of the disk that would be free without it."""
    return max(1, min(setting, int((free_bytes + used_bytes) * SHARE_OF_FREE_DISK)))


@dataclass
class Budget:
    """The limit, and whether the outbox has grown over it and has not come well below it since."""

    limit: int
    crowded: bool = False
    thinned_to: int = 0
    """What was left after the last thinning: it is tried again only after the outbox has grown from there."""

    def note(self, used: int) -> None:
        """Take note of what is used now."""
        if used > self.limit:
            self.crowded = True
        elif used < self.limit * _ROOM_AGAIN_SHARE:
            self.crowded = False
            self.thinned_to = 0

    def level_after(self, last: Level | None, used: int) -> Level | None:
        """Return what to thin next, after a way through the events with ``last``; None when that is enough."""
        if last is None:
            return "logs" if used > max(self.limit, self.thinned_to * _THIN_AGAIN_SHARE) else None
        if last == "logs":
            return "metrics" if used > self.limit * _METRICS_FROM_SHARE else None
        return None

    def wanted(self, used: int) -> int:
        """Return how many bytes a thinning has still to free; less than one when it is enough."""
        return used - int(self.limit * _TARGET_SHARE)

    def refuses_logs(self, used: int) -> bool:
        """Tell whether new lines are left out: thinning does not keep up, or can free nothing more."""
        return used >= self.limit * _LOGS_REFUSED_SHARE

    def refuses_all(self, used: int) -> bool:
        """Tell whether nothing more is taken: no honest job has so much to say that may not be thinned.

        Completions, uploads and the newest checkpoint are no events and are kept in any case.
        """
        return used >= self.limit * _ALL_REFUSED_SHARE

    def refuses_metrics(self, used: int) -> bool:
        """Tell whether new metrics and progress are left out too."""
        return used >= self.limit * _METRICS_REFUSED_SHARE
