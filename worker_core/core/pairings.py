"""Pairing, as the running core does it for its faces and `stoker pair` does it without one."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from worker_core.control.messages import ErrorCode, PairArgs, PairOutcome
from worker_core.core.enrollment import Enrollment, read_farewell, write_enrollment
from worker_core.core.tasks import see_through
from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalError
from worker_core.link.address import Address
from worker_core.link.backoff import Backoff, Sleep, until_answered
from worker_core.link.client import CoordinatorClient
from worker_core.link.exchange import Exchanger
from worker_core.link.faults import BadAddress, LinkFault, TransportFault
from worker_core.link.identity import WorkerKey
from worker_core.link.pairing import PairingOver, await_approval
from worker_core.link.route import BY_SYSTEM, Route
from worker_core.machine.host import read_host
from worker_core.machine.keystore import CredentialStore, Saved, Unavailable, chosen_store, open_store
from worker_core.machine.machine_id import fingerprint
from worker_core.machine.paths import Paths
from worker_core.machine.sources import Sources
from worker_core.wire.pairing import PairingApproved, PairingRequest, PairingStarted
from worker_core.wire.problems import ProblemError
from worker_core.wire.status import PairingShown

log = logging.getLogger(__name__)

_START_TRIES = 2
_INSIST_S = 600.0
"""So long a coordinator repeats an approval, and so long a full disk may keep it from being written down."""
_INSIST_CAP_S = 30.0


class PairingRefused(Exception):
    """A pairing cannot begin; ``code`` and text are for a person."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code: ErrorCode = code


@dataclass
class OpenPairing:
    """A pairing that waits for a person's decision."""

    args: PairArgs
    client: CoordinatorClient
    key: WorkerKey
    store: CredentialStore
    started: PairingStarted
    ends_at: float

    def shown(self, now: float) -> PairingShown:
        """Return what a person needs to see."""
        return PairingShown(
            user_code=self.started.user_code,
            verification_uri=self.started.verification_uri,
            fingerprint=self.started.fingerprint,
            expires_in_s=max(0.0, self.ends_at - now),
            coordinator=self.client.link.address.url,
            email=self.args.email,
        )


class PairingDesk:
    """Begins pairings and sees them through."""

    def __init__(
        self,
        paths: Paths,
        journal: Journal,
        sources: Sources,
        version: str,
        sleep: Sleep = asyncio.sleep,
        route: Route = BY_SYSTEM,
    ) -> None:
        self.route = route
        self._paths = paths
        self._journal = journal
        self._sources = sources
        self._version = version
        self._sleep = sleep

    async def begin(self, args: PairArgs) -> OpenPairing:
        """Make a key, store it, ask for a code; raises :class:`PairingRefused`."""
        key = WorkerKey.generate()
        try:
            address = Address.parse(args.coordinator)
            store = open_store(self._paths, chosen_store(args.credential_store))
            client = CoordinatorClient(Exchanger(address, key, self._sources.clock, self.route))
        except (BadAddress, ValueError) as error:
            raise PairingRefused("bad-request", str(error)) from error
        saved = await self._save(store, key)
        if isinstance(saved, Unavailable):
            raise PairingRefused("refused", saved.detail)
        try:
            started = await self._ask_for_code(client, args)
        except BaseException:
            await client.link.close()
            await asyncio.to_thread(store.delete)
            raise
        return OpenPairing(args, client, key, store, started, self._sources.clock.now() + started.expires_in)

    async def _save(self, store: CredentialStore, key: WorkerKey) -> Saved | Unavailable:
        """Keep the key; one who gives up meanwhile leaves none, because saving cannot be broken off."""
        try:
            return await see_through(asyncio.to_thread(store.save, key.secret))
        except asyncio.CancelledError:
            await asyncio.to_thread(store.delete)
            raise

    async def await_decision(self, pairing: OpenPairing) -> PairOutcome:
        """Wait for a person; after approval the enrollment is on disk, after anything else the key is gone.

        Cancelled after the approval it is too late: the coordinator has a new worker, and so it is one.
        """
        try:
            approved = await await_approval(pairing.client, pairing.started, self._sources.clock, self._sleep)
            await self._enroll_at_last(pairing, approved)
        except PairingOver as over:
            await self._forget(pairing)
            return PairOutcome(state=over.state, detail=str(over))
        except (LinkFault, ProblemError, JournalError) as fault:
            await self._forget(pairing)
            return PairOutcome(state="failed", detail=str(fault))
        await pairing.client.link.close()
        return PairOutcome(
            state="approved",
            worker_id=approved.worker_id,
            worker_name=approved.worker_name,
            account=approved.account,
            detail=f"approved by {approved.approved_by}",
        )

    async def call_off(self, pairing: OpenPairing) -> None:
        """Tell the coordinator that nobody waits for this code any more, and forget the key."""
        with contextlib.suppress(LinkFault, ProblemError):  # the code dies by itself
            await pairing.client.cancel_pairing(pairing.started.pairing_id)
        await self._forget(pairing)

    async def _ask_for_code(self, client: CoordinatorClient, args: PairArgs) -> PairingStarted:
        host = await asyncio.to_thread(lambda: read_host(self._sources.gpus.facts()))
        request = PairingRequest(
            email=args.email, host=host, worker_version=self._version, device_name=args.name or self._old_name()
        )
        try:
            return await until_answered(
                lambda: client.start_pairing(request), Backoff(2.0), self._sleep, tries=_START_TRIES
            )
        except TransportFault as fault:
            raise PairingRefused("unreachable", f"no code from {client.link.address.url}: {fault}") from fault
        except (LinkFault, ProblemError) as fault:
            raise PairingRefused("refused", f"{client.link.address.url} gives no code: {fault}") from fault

    def _old_name(self) -> str | None:
        """The name this worker had before it was revoked or removed, for a person to approve again."""
        farewell = read_farewell(self._journal)
        return farewell.worker_name if farewell is not None else None

    async def _enroll_at_last(self, pairing: OpenPairing, approved: PairingApproved) -> None:
        """Write the enrollment down, again while the journal takes none: the key is known to the coordinator now."""
        backoff, ends_at = Backoff(_INSIST_CAP_S), self._sources.clock.now() + _INSIST_S
        while True:
            enrolling = asyncio.ensure_future(self._enroll(pairing, approved))
            try:
                await asyncio.shield(enrolling)
            except asyncio.CancelledError:
                await enrolling  # a journal that takes nothing ends it here: nobody waits any more
                return
            except JournalError as error:
                if self._sources.clock.now() >= ends_at:
                    raise
                log.warning("the approved pairing is not written down yet: %s", error)
                await self._sleep(backoff.next_wait())
            else:
                return

    async def _enroll(self, pairing: OpenPairing, approved: PairingApproved) -> None:
        await write_enrollment(
            self._journal,
            Enrollment(
                coordinator=pairing.client.link.address.url,
                worker_id=approved.worker_id,
                worker_name=approved.worker_name,
                account=approved.account,
                approved_by=approved.approved_by,
                thumbprint=pairing.key.thumbprint,
                jwks=approved.coordinator_jwks,
                credential_store=pairing.store.kind,
                authorization_s=approved.authorization.remaining_s,
                machine=fingerprint(self._sources.computer(), approved.worker_id),
                key_made_at=self._sources.clock.wall(),
            ),
        )

    async def _forget(self, pairing: OpenPairing) -> None:
        await pairing.client.link.close()
        await asyncio.to_thread(pairing.store.delete)
