"""`stoker run --once`: a worker that is to do one job must not wait for ever where none can come.

Nobody looks at such a worker; a script waits for its exit code. A network that is down is waited for, as always.
"""

import asyncio
import logging

from worker_core.core.worker import Worker
from worker_core.wire.vocabulary import Reason

log = logging.getLogger(__name__)

PATIENCE_S = 15.0
"""How long one and the same refusal must hold: a single stray one says nothing."""
_LOOK_EVERY_S = 0.5
_HOPELESS: tuple[Reason, ...] = ("credential-missing", "cannot-authenticate", "credential-conflict")


class Errand:
    """Watches a worker that is to do one job, and sends it home when there is no hope."""

    def __init__(self, worker: Worker, patience_s: float = PATIENCE_S) -> None:
        self.why_not = ""
        """Why no job can come; empty while one can."""
        self._worker = worker
        self._patience_s = patience_s

    async def watch(self) -> None:
        """Return when the worker was sent home."""
        held_s = 0.0
        while not self.why_not:
            await asyncio.sleep(_LOOK_EVERY_S)
            status = self._worker.status()
            if status.state in ("revoked", "unpaired"):
                self.why_not = status.detail or "This worker is not paired any more."
                break
            hopeless = any(reason in _HOPELESS for reason in status.reasons) and status.job is None
            held_s = held_s + _LOOK_EVERY_S if hopeless else 0.0
            if held_s >= self._patience_s:
                self.why_not = status.detail
        log.error("no job can come: %s", self.why_not)
        self._worker.leave("now")
