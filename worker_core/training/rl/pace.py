"""How fast training goes, and so how long it will take."""

import time

_ETA_AFTER_S = 2.0


class Pace:
    """How fast training goes in this attempt."""

    def __init__(self, decisions: int) -> None:
        self.began_at = self._told_at = decisions
        self._began = self._told = time.monotonic()

    def seconds_per_decision(self, decisions: int) -> float | None:
        """Return the pace so far, once there is something to judge by."""
        elapsed = time.monotonic() - self._began
        if elapsed < _ETA_AFTER_S or decisions <= self.began_at:
            return None
        return elapsed / (decisions - self.began_at)

    def take_speed(self, decisions: int) -> float:
        """Return decisions a second since the last call."""
        now = time.monotonic()
        speed = (decisions - self._told_at) / max(now - self._told, 1e-9)
        self._told_at, self._told = decisions, now
        return speed
