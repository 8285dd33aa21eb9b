"""Tells that the computer slept, by the clock: a tray looks at least each minute, unless it could not."""

from dataclasses import dataclass, replace

GAP_S = 120.0
"""Twice the time between two looks: a shorter gap is a busy machine."""
GRACE_S = 30.0
"""After waking, the network and the coordinator have so long to come back before anybody is told of trouble."""


@dataclass(frozen=True)
class Waking:
    """``seen`` is the last look, ``quiet_until`` the end of the grace (seconds since 1970)."""

    seen: float
    quiet_until: float

    def at(self, now: float) -> "Waking":
        """Take note of a look; a clock that was set back ends no grace late."""
        slept = now - self.seen > GAP_S
        until = now + GRACE_S if slept else min(self.quiet_until, now + GRACE_S)
        return replace(self, seen=now, quiet_until=until)
