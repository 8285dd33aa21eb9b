"""Whether a job may be taken with regard to safety: how jobs are contained here, and whether the last one is gone.

Containment is tried when the core starts, and again from time to time while there is none, so that what a person
installs is found without a restart.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path

from worker_core.core.settings import Settings
from worker_core.jobs.process import ProcessIdentity, end_tree
from worker_core.jobs.sandbox.cell import is_contained, shown
from worker_core.jobs.sandbox.confinement import Confinement, Policy
from worker_core.jobs.sandbox.finder import find_containment
from worker_core.machine.adoption import adopted
from worker_core.machine.paths import Paths
from worker_core.wire.status import ContainmentShown
from worker_core.wire.vocabulary import Reason

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 60.0
_BURY_EVERY_S = 5.0
_RETRY_S = 5.0
_RETRY_LIMIT_S = 1.0


def policy_of(settings: Settings) -> Policy:
    """Return the owner's rules for jobs."""
    return Policy(
        allow_uncontained=settings.allow_uncontained,
        allow_network=settings.allow_network,
        max_memory_share=settings.max_memory_share,
        max_processes=settings.max_processes,
        readable=tuple(Path(folder).expanduser() for folder in settings.readable_folders),
    )


class JobSafety:
    """How jobs are held on this machine, and what of them could not be ended."""

    def __init__(self, paths: Paths, settings: Settings) -> None:
        self.confinement = Confinement(policy=policy_of(settings))
        self.on_change: Callable[[], None] = _nobody
        """Called when jobs may be taken that could not before, or the other way round."""
        self._paths = paths
        self._left: dict[str, tuple[int, ...]] = {}
        self._looked = False

    async def look(self) -> None:
        """Find the strongest containment that works now."""
        found = await asyncio.to_thread(find_containment, self._paths)
        if not self._looked or found.by != self.confinement.containment.by:
            if is_contained(found):
                log.info("jobs are contained by %s", found.by)
            else:
                log.warning("nothing keeps jobs from the owner's files: %s", found.detail)
        self.confinement = Confinement(found, self.confinement.policy)
        self._looked = True
        self.on_change()

    async def watch(self) -> None:
        """Look again, as long as nothing contains jobs here; bury what was adopted and has ended."""
        waited_s = 0.0
        while True:
            step_s = min(_BURY_EVERY_S, LOOK_AGAIN_S)
            await asyncio.sleep(step_s)
            adopted()
            waited_s += step_s
            if waited_s >= LOOK_AGAIN_S:
                waited_s = 0.0
                if not is_contained(self.confinement.containment):
                    await self.look()

    def obstacle(self) -> tuple[Reason, str] | None:
        """Return why no job may be taken now, as a reason code and a sentence."""
        refusal = self.confinement.refusal
        return next(iter(self.troubles().items()), ("no-containment", refusal) if refusal else None)

    def troubles(self) -> dict[Reason, str]:
        """Return what keeps jobs from being taken, as far as it was looked for."""
        found: dict[Reason, str] = {}
        if self._left:
            pids = ", ".join(str(pid) for left in self._left.values() for pid in left)
            text = f"Processes of a job cannot be ended ({pids}). Restart the computer if they stay."
            found["job-stuck"] = text
        if self._looked and self.confinement.refusal:
            found["no-containment"] = self.confinement.refusal
        return found

    def shown(self) -> ContainmentShown:
        """Return what the status says."""
        return shown(self.confinement.containment, allow_network=self.confinement.policy.allow_network)

    def see_gone(
        self, identity: ProcessIdentity | None, attempt_id: str, left: tuple[int, ...]
    ) -> Coroutine[None, None, None]:
        """Take no job from now on; what is returned tries until the rest of this attempt is gone, and lifts that."""
        self._left[attempt_id] = left
        self.on_change()
        log.error("processes of %s cannot be ended: %s; no job is taken until they are gone", attempt_id, left)
        return self._end_rest(identity, attempt_id)

    async def _end_rest(self, identity: ProcessIdentity | None, attempt_id: str) -> None:
        while self._left[attempt_id]:
            await asyncio.sleep(_RETRY_S)
            end = await asyncio.to_thread(end_tree, identity, attempt_id, limit_s=_RETRY_LIMIT_S)
            self._left[attempt_id] = end.left
        del self._left[attempt_id]
        log.info("the processes of %s are gone; jobs are taken again", attempt_id)
        self.on_change()


def _nobody() -> None:
    """Stand for a core that does not listen yet."""
