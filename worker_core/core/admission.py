"""How this worker comes into the service of a coordinator and out of it: pairing, the key, the contact, the wipe."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Protocol

from worker_core.control.messages import PairArgs, PairOutcome
from worker_core.core import life as lives
from worker_core.core.correspondence import Correspondence
from worker_core.core.enrollment import Enrollment, read_enrollment, write_farewell
from worker_core.core.knowledge import Knowledge
from worker_core.core.membership import Membership
from worker_core.core.pairings import OpenPairing, PairingDesk, PairingRefused
from worker_core.core.rekeying import Rekeying
from worker_core.core.slot import Slot
from worker_core.core.tasks import Tasks
from worker_core.core.wiping import erase, farewell_to, finish_erasing, remove_key
from worker_core.jobs.blobs import blob_path
from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalError
from worker_core.link.identity import BadCredential, Credential
from worker_core.machine.instance_lock import LockHeld
from worker_core.machine.keystore import Absent, Found, Unavailable, open_store
from worker_core.machine.paths import Paths
from worker_core.machine.sole_use import SoleUse

log = logging.getLogger(__name__)

KEYSTORE_RETRY_S = 30.0
_UNPAIR_S = 10.0
_TREE_GONE_S = 30.0


class AdmissionHost(Protocol):
    """The core, as its admission sees it."""

    slot_free: asyncio.Event

    def feed(self, event: lives.Event) -> None: ...

    def changed(self) -> None: ...


class Admission:
    """What exists only while this worker is paired, how it comes to be and how it goes."""

    def __init__(
        self,
        paths: Paths,
        journal: Journal,
        desk: PairingDesk,
        known: Knowledge,
        slot: Slot,
        mail: Correspondence,
        tasks: Tasks,
        host: AdmissionHost,
        cut_short: Enrollment | None,
    ) -> None:
        self.membership: Membership | None = None
        self.rekeying: Rekeying | None = None
        self._sole_use: SoleUse | None = None
        self.wiping: asyncio.Task[None] | None = None
        self.decision: asyncio.Future[PairOutcome] | None = None
        """The outcome of the pairing in progress, or of the last one."""
        self._paths = paths
        self._journal = journal
        self._desk = desk
        self._known = known
        self._slot = slot
        self._mail = mail
        self._tasks = tasks
        self._host = host
        self._cut_short = cut_short
        self._pairing_task: asyncio.Task[None] | None = None

    # What the state machine orders

    def connect(self) -> None:
        """Fetch the key and open the contact, in the background."""
        self._tasks.start(self._connect())

    def wipe(self) -> None:
        """Forget everything about the coordinator, in the background."""
        self.wiping = self._tasks.start(self._wipe())

    def tidy(self) -> None:
        """Finish a wipe that was cut short, in the background."""
        self.wiping = self._tasks.start(self._tidy_unpaired())

    # What people ask for

    async def begin_pairing(self, args: PairArgs) -> OpenPairing:
        """Start pairing; raises PairingRefused."""
        if self.wiping is not None:
            await asyncio.wait({self.wiping})
        if self._known.life.standing not in ("unpaired", "revoked"):
            raise PairingRefused("wrong-state", "a pairing is in progress; cancel it first")
        self._host.feed(lives.PairingBegun())
        try:
            if self._known.foreign is not None:
                self._known.foreign = None
                await erase(self._paths, self._journal, None)
            pairing = await self._desk.begin(args)
        except BaseException:
            self._host.feed(lives.PairingEnded())
            raise
        self._known.pairing = pairing
        self.decision = asyncio.get_running_loop().create_future()
        self._pairing_task = self._tasks.start(self._see_pairing_through(pairing, self.decision))
        self._host.changed()
        return pairing

    def cancel_pairing(self) -> None:
        """Call the pairing in progress off."""
        if self._pairing_task is not None:
            self._pairing_task.cancel()

    async def unpair(self) -> bool:
        """Tell the coordinator that the pairing ends; True when it confirmed that."""
        return self.membership is not None and await self.membership.unpair(_UNPAIR_S)

    async def end_membership(self) -> None:
        """End the contact and the deliveries."""
        member, self.membership = self.membership, None
        await self._end_rekeying()
        if member is not None:
            await member.close()
        if self._sole_use is not None:
            self._sole_use.release()
            self._sole_use = None

    # The work

    async def _end_rekeying(self) -> None:
        rekeying, self.rekeying = self.rekeying, None
        if rekeying is not None:
            await rekeying.close()

    async def _connect(self) -> None:
        enrollment = self._known.enrollment
        if enrollment is None:
            return
        store = open_store(self._paths, enrollment.credential_store)
        found = await asyncio.to_thread(store.load)
        if self._known.enrollment is not enrollment:
            return  # the pairing ended while its keystore was asked
        credential = self._read_key(found)
        if credential is None or not self._takes_sole_use(enrollment):
            return
        key = credential.key
        locate: Callable[[str], Any] = lambda sha256: blob_path(self._paths.blobs, sha256)  # noqa: E731
        member = Membership(
            enrollment, key, self._journal, locate, self._known.clock, self._mail, self._mail, self._desk.route
        )
        self.membership, self._known.contact = member, member.contact
        self.rekeying = Rekeying(credential, store, self._journal, member.client, self._known)
        self._mail.control_watch = self.rekeying.control_seen
        self._slot.attach(member.client, member.delivery)
        await self._slot.recover(connect=lambda: member.contact.start() if self.membership is member else None)

    def _takes_sole_use(self, enrollment: Enrollment) -> bool:
        """Tell whether no other core of this computer uses the same key; if one does, look again later."""
        self._sole_use = self._sole_use or SoleUse(enrollment.worker_id)
        try:
            self._sole_use.take()
        except LockHeld as held:
            who = f" (process {held.pid})" if held.pid else ""
            text = (
                f"Another worker on this computer{who} uses this key: its files are a copy of these. Stop one of them."
            )
            self._known.troubles.set("copied-home", text)
            self._host.feed(lives.KeystoreRefused())
            self._tasks.start(self._retry_keystore())
            return False
        self._known.troubles.clear("copied-home")
        return True

    def _read_key(self, found: Found | Absent | Unavailable) -> Credential | None:
        """Return the key, or note why not and try again later: a worker never pairs again by itself."""
        troubles = self._known.troubles
        try:
            if isinstance(found, Found):
                credential = Credential.read(found.secret)
                troubles.clear("keystore-locked", "credential-missing")
                return credential
            missing = "The credential store has no key of this worker any more. Unpair, then pair again."
        except BadCredential as error:
            missing = f"{error}. Unpair, then pair again."
        if isinstance(found, Unavailable):
            troubles.set("keystore-locked", found.detail)
        else:
            troubles.set("credential-missing", missing)
        self._host.feed(lives.KeystoreRefused())
        self._tasks.start(self._retry_keystore())
        return None

    async def _retry_keystore(self) -> None:
        await asyncio.sleep(KEYSTORE_RETRY_S)
        self._host.feed(lives.KeystoreOpened())

    async def _see_pairing_through(self, pairing: OpenPairing, decision: "asyncio.Future[PairOutcome]") -> None:
        try:
            outcome = await self._desk.await_decision(pairing)
        except asyncio.CancelledError:
            await self._desk.call_off(pairing)
            outcome = PairOutcome(state="canceled", detail="the pairing was called off here")
        self._known.pairing = None
        if outcome.state == "approved":
            self._known.enrollment, self._known.farewell = read_enrollment(self._journal), None
            self._host.feed(lives.PairingApproved())
        else:
            self._host.feed(lives.PairingEnded())
        if not decision.done():
            decision.set_result(outcome)

    async def _wipe(self) -> None:
        """Forget everything about a coordinator this worker does not belong to any more."""
        known, enrollment = self._known, self._known.enrollment
        assert enrollment is not None
        farewell = farewell_to(enrollment, known.revocation)
        known.enrollment, known.farewell = None, farewell
        known.revocation = known.authorization = known.contact = None
        known.console_seen = False
        known.troubles.clear_all()
        self._slot.detach()
        if farewell is not None:
            with contextlib.suppress(JournalError):  # only for the case that the next lines are cut short
                await write_farewell(self._journal, farewell)
        await self._end_rekeying()  # first, so that no new key is saved behind the one that is removed
        key_left, _ = await asyncio.gather(remove_key(self._paths, enrollment.credential_store), self.end_membership())
        gone = await self._await_free_slot()
        known.farewell = await erase(self._paths, self._journal, farewell, key_left)
        what = "the journal and all workspaces" if gone else "the journal and all workspaces but the last job's"
        log.info("%s of %s are gone", what, enrollment.worker_name)
        self._host.changed()

    async def _tidy_unpaired(self) -> None:
        known = self._known
        known.farewell = await finish_erasing(self._paths, self._journal, self._cut_short, known.farewell)
        self._host.changed()

    async def _await_free_slot(self) -> bool:
        try:
            async with asyncio.timeout(_TREE_GONE_S):
                return await self._host.slot_free.wait()
        except TimeoutError:
            log.error("the job's processes are still there; their workspace stays until the next start")
            return False
