"""The hours of a week, by local time: whether a moment lies in them, and when that changes next.

Nothing is planned ahead and nothing can be missed: every answer is derived from the moment itself, so a sleep, a clock
that was set or a change of the daylight saving time needs no care beyond looking again.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from worker_core.wire.owner_rules import DAYS, Hours

_WEEK = range(-1, 8)
"""Days to look at, from yesterday, whose span may go on: in a week everything has come once."""
_SOON = range(-1, 3)
_NOW = range(-1, 1)


def allowed(hours: tuple[Hours, ...], moment: float) -> bool:
    """Tell whether jobs may run at a moment (seconds since 1970); without hours they always may."""
    if not hours:
        return True
    return any(begin <= moment < end for begin, end in _spans(hours, datetime.fromtimestamp(moment), _NOW))


def next_change(hours: tuple[Hours, ...], moment: float) -> float | None:
    """Return when the answer of :func:`allowed` changes next; None when it never does."""
    now_allowed = allowed(hours, moment)
    local = datetime.fromtimestamp(moment)
    for days in (_SOON, _WEEK):  # mostly it is today or tomorrow
        borders = {border for span in _spans(hours, local, days) for border in span}
        # What lies beyond the days looked at may have earlier neighbours that were not looked at.
        known_until = moment + (len(days) - 2) * 86400 - 90_000
        for at in sorted(borders):
            if moment < at and (days is _WEEK or at <= known_until) and allowed(hours, at) != now_allowed:
                return at
    return None


def _spans(hours: Iterable[Hours], local: datetime, days: range) -> Iterable[tuple[float, float]]:
    """Return spans as moments (seconds since 1970), not as local times: those come twice when summer time ends.

    A local time that is repeated means the first of the two; one that is skipped is as much later as the clock jumps.
    """
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    for offset in days:
        day = midnight + timedelta(days=offset)
        for span in hours:
            if DAYS[day.weekday()] in span.days:
                begin, end = _at(day, span.begin), _at(day, span.end)
                yield begin.timestamp(), (end if end > begin else end + timedelta(days=1)).timestamp()


def _at(day: datetime, clock: str) -> datetime:
    hour, minute = clock.split(":")
    return day.replace(hour=int(hour), minute=int(minute))
