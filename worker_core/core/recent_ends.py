"""The attempts that ended since this core started, so that a face can tell what became of each."""

import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from worker_core.journal.records import AttemptEnd, NewAttempt
from worker_core.wire.status import EndedHow, EndedShown

KEPT = 8


class RecentEnds:
    """Remembers the last few; ``count`` goes on counting."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.count = 0
        self._wall = wall
        self._ended: deque[EndedShown] = deque(maxlen=KEPT)

    def note(self, row: NewAttempt, end: AttemptEnd, fate: Literal["deliver", "cancel", "discard"]) -> None:
        """Take down how an attempt left the slot."""
        self.count += 1
        error = end.error
        self._ended.append(
            EndedShown(
                attempt_id=row.attempt_id,
                job_id=row.job_id,
                name=row.job_name,
                attempt=row.ordinal,
                outcome=_outcome(end, fate),
                failure=error.failure if error is not None else "",
                message=error.message if error is not None else end.note,
                at=self._wall(),
            )
        )

    def shown(self) -> tuple[EndedShown, ...]:
        """Return them, the newest last."""
        return tuple(self._ended)


def _outcome(end: AttemptEnd, fate: Literal["deliver", "cancel", "discard"]) -> EndedHow:
    if fate == "discard":
        return "superseded"
    if end.how == "finished":
        return "succeeded" if end.outcome == "succeeded" else "failed"
    return "canceled" if fate == "cancel" else "released"
