"""Changing this worker's key, once a year or because a person chose Keep after a conflict.

The new key lies in the credential store before the coordinator hears of it, beside the old one, and stays there with it
until the coordinator has answered; so whatever is lost or crashes on the way, the key the coordinator knows is here.
"""

import asyncio
import logging

from msgspec import structs

from worker_core.core.enrollment import Enrollment, write_enrollment
from worker_core.core.knowledge import Knowledge
from worker_core.core.tasks import Tasks, see_through
from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalError
from worker_core.link.backoff import MAX_ASKED_S, Backoff, may_help, spread
from worker_core.link.client import CoordinatorClient
from worker_core.link.faults import LinkFault
from worker_core.link.identity import Credential, WorkerKey
from worker_core.link.signatures import NotSignedForUs
from worker_core.machine.keystore import CredentialStore, Unavailable
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import Control

log = logging.getLogger(__name__)

_RETRY_CAP_S = 60.0


class StoreRefused(Exception):
    """The credential store does not take the new key; the text says why."""


class Rekeying:
    """The key of one membership, and the keys it believes."""

    def __init__(
        self,
        credential: Credential,
        store: CredentialStore,
        journal: Journal,
        client: CoordinatorClient,
        known: Knowledge,
    ) -> None:
        self._credential = credential
        self._store = store
        self._journal = journal
        self._client = client
        self._known = known
        self._tasks = Tasks("change of the key")
        self._changing: asyncio.Task[None] | None = None
        client.link.spare = credential.next
        self._expect(credential.next)

    def control_seen(self, control: Control) -> None:
        """Do what the control document asks of keys."""
        if control.rotate_key or self._credential.next is not None:
            self.begin()
        if control.next_coordinator_key is not None:
            self._tasks.start(self._pin_next(control.next_coordinator_key))

    def begin(self) -> None:
        """Change the key in the background, unless that is under way."""
        if self._changing is None or self._changing.done():
            self._changing = self._tasks.start(self._change_until_done())

    async def check_age(self, max_age_s: float) -> None:
        """Change a key that is too old. A date that is wrong makes this early or late, and nothing worse."""
        enrollment = self._known.enrollment
        if enrollment is None or max_age_s <= 0:
            return
        now = self._known.clock.wall()
        if not enrollment.key_made_at:
            await self._keep(structs.replace(enrollment, key_made_at=now))
        elif now - enrollment.key_made_at > max_age_s:
            self.begin()

    async def close(self) -> None:
        """End what is under way, but let a key that is being saved be saved; the next start goes on with it."""
        await self._tasks.end()

    async def _change_until_done(self) -> None:
        backoff = Backoff(_RETRY_CAP_S)
        while True:
            try:
                await self._change()
            except (LinkFault, ProblemError, StoreRefused, JournalError) as fault:
                log.warning("the key is not changed yet: %s", fault)
                wait_s = backoff.next_wait(fault)
                await asyncio.sleep(spread(MAX_ASKED_S) if _is_settled(fault) else wait_s)
            else:
                return

    async def _change(self) -> None:
        new = self._credential.next
        if new is None:
            new = WorkerKey.generate()
            await self._save(Credential(self._credential.key, new))
        link = self._client.link
        if link.key is not new:
            link.spare = new
        self._expect(new)
        await self._client.change_key(new)
        link.use_key(new)
        await self._finish(new)

    async def _finish(self, new: WorkerKey) -> None:
        enrollment = self._known.enrollment
        if enrollment is not None:
            await self._keep(
                structs.replace(enrollment, thumbprint=new.thumbprint, key_made_at=self._known.clock.wall())
            )
        await self._save(Credential(new))
        if enrollment is not None and self._client.link.pinned is not None:
            pinned = structs.replace(self._client.link.pinned, thumbprint=new.thumbprint, next_thumbprint="")
            self._client.link.pinned = pinned
        log.info("this worker has a new key")

    async def _pin_next(self, compact: str) -> None:
        link, enrollment = self._client.link, self._known.enrollment
        if link.pinned is None or enrollment is None:
            return
        try:
            jwks = link.pinned.with_next_key(compact, link.gen)
        except NotSignedForUs as error:
            log.warning("a next key of the coordinator was ignored: %s", error)
            return
        if jwks != enrollment.jwks:
            await self._keep(structs.replace(enrollment, jwks=jwks))
            link.pinned = structs.replace(link.pinned, jwks=jwks)
            log.info("the coordinator's next key is pinned")

    def _expect(self, following: WorkerKey | None) -> None:
        """Let offers and revocations name either key while they change."""
        pinned = self._client.link.pinned
        if pinned is not None and following is not None:
            both = {"thumbprint": self._credential.key.thumbprint, "next_thumbprint": following.thumbprint}
            self._client.link.pinned = structs.replace(pinned, **both)

    async def _save(self, credential: Credential) -> None:
        saved = await see_through(asyncio.to_thread(self._store.save, credential.secret))
        if isinstance(saved, Unavailable):
            raise StoreRefused(saved.detail)
        self._credential = credential

    async def _keep(self, enrollment: Enrollment) -> None:
        await write_enrollment(self._journal, enrollment)
        if self._known.enrollment is not None:  # else the pairing ended meanwhile
            self._known.enrollment = enrollment


def _is_settled(fault: Exception) -> bool:
    """Tell whether the coordinator will say the same for long: neither time nor another session or token cures it."""
    if not isinstance(fault, ProblemError) or may_help(fault):
        return False
    return fault.problem.status != 401 and fault.problem.action not in ("new_session", "new_token", "retry")
