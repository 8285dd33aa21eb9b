"""Holds for a while what changes fast: a reading has to last before a rule acts, and acts only so often."""

from dataclasses import dataclass, replace

HOUR_S = 3600.0
MOST_SWITCHES = 6
"""A rule switches at most so often within any hour; what is over that stays held, which is the safe side."""


@dataclass(frozen=True)
class Latch:
    """One rule's memory. Times are seconds of a clock that goes on during sleep and that nobody can set."""

    held: bool = False
    since: float | None = None
    """Since when the reading has asked for the other state."""
    switches: tuple[float, ...] = ()


def step(latch: Latch, wanted: bool, now: float, *, enter_s: float, leave_s: float) -> Latch:
    """Take one reading: ``wanted`` asks for holding. It is obeyed once it has lasted ``enter_s``, or ``leave_s``."""
    recent = tuple(moment for moment in latch.switches if now - moment < HOUR_S)
    if wanted == latch.held:
        return replace(latch, since=None, switches=recent)
    since = latch.since if latch.since is not None else now
    waits = now - since < (enter_s if wanted else leave_s)
    # A release leaves room for the hold that may follow it.
    if waits or (not wanted and len(recent) > MOST_SWITCHES - 2):
        return Latch(latch.held, since, recent)
    return Latch(wanted, None, (*recent, now))
