"""What the contact, the deliveries and the slot tell the core, turned into events of the state machine."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from worker_core.core import life as lives
from worker_core.core.knowledge import Knowledge
from worker_core.core.shown import show
from worker_core.core.slot import Slot
from worker_core.core.storage_view import obstacle as find_obstacle
from worker_core.core.troubles import LINK_TROUBLES, trouble_of
from worker_core.core.version import VERSION
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptRow
from worker_core.link.contact import Introduction, Posture
from worker_core.link.exchange import WorkerRevoked
from worker_core.machine.host import boot_id
from worker_core.wire.problems import ProblemError
from worker_core.wire.session import Authorization, Control, HeldAttempt, Verdict
from worker_core.wire.signed import Offer, Revocation
from worker_core.wire.work import LeaseState

log = logging.getLogger(__name__)

KINDS = ("rl-session",)
_SAME_OFFER = 3
"""So often an offer is answered that comes again and again; after that it lapses by itself."""
_STANDING: dict[str, lives.Event] = {
    "credential-conflict": lives.ConflictSeen(),
    "upgrade-required": lives.UpgradeAsked(),
}
"""Refusals that say how this worker stands with its coordinator."""
_NO_ANSWER = ("coordinator-unreachable", "wrong-coordinator")
"""Troubles that a refusal of the coordinator ends: it answered."""
Feed = Callable[[lives.Event], None]


class Correspondence:
    """Answers for the core towards the coordinator (ContactHost and DeliveryWatch)."""

    def __init__(
        self,
        known: Knowledge,
        slot: Slot,
        journal: Journal,
        feed: Feed,
        changed: Callable[[], None],
        delivered: Callable[[str], None],
        link_is_up: Callable[[], None],
    ) -> None:
        self._known = known
        self._slot = slot
        self._journal = journal
        self._feed = feed
        self._changed = changed
        self._delivered = delivered
        self._link_is_up = link_is_up
        self._met: deque[str] = deque(maxlen=64)
        self._sessions = 0
        self._shown: dict[str, int] = {}
        """Attempts the coordinator did not know, and how many sessions were open before it was shown them again."""
        self.open_offer: tuple[Offer, str] | None = None
        """The offer that the next ``accept`` or ``decline`` of the state machine is about."""
        self.control_watch: Callable[[Control], None] = lambda _: None
        """Told each control document: keys may have to change."""

    # ContactHost

    def posture(self) -> Posture:
        known, outbox = self._known, self._journal.outbox()
        status = show(known.facts(self._slot.shown(), outbox, self._slot.ends))
        obstacle = find_obstacle(known.machine, self._journal)
        return Posture(
            state=status.state,  # type: ignore[arg-type]
            reasons=status.reasons,
            local_mode=known.life.here,
            free_slots=1 if known.life.takes_work and obstacle is None else 0,
            leases=self._slot.leases(),
            held_gpus=known.gpu_care.held(),
            health=known.machine.health(known.failures_in_a_row, known.loop_lag_s, (obstacle[0],) if obstacle else ()),
            outbox=outbox,
        )

    async def introduction(self) -> Introduction:
        enrollment = self._known.enrollment
        assert enrollment is not None
        rows = await self._journal.attempts()
        capabilities = await asyncio.to_thread(self._known.machine.capabilities, KINDS, enrollment.credential_store)
        return Introduction(
            worker_id=enrollment.worker_id,
            boot_id=boot_id(),
            version=VERSION,
            capabilities=capabilities,
            held=tuple(_held(row) for row in rows),
        )

    def connected(self, verdicts: tuple[Verdict, ...]) -> None:
        self._feed(lives.SessionOpened())
        self._sessions += 1
        for verdict in verdicts:
            if verdict.verdict in ("stop", "keep_unknown"):
                self._lose(verdict.attempt_id)
            else:
                self._shown.pop(verdict.attempt_id, None)
        self._link_is_up()
        self.answered()

    def answered(self) -> None:
        if self._known.troubles.clear(*LINK_TROUBLES):
            log.info("the coordinator answers again")
            self._link_is_up()
        self._changed()

    def polled(self) -> None:
        if self._known.life.outdated:
            self._known.troubles.clear("upgrade-required")
            self._feed(lives.UpgradeAsked(asked=False))

    def failed(self, fault: Exception) -> None:
        if isinstance(fault, ProblemError) and fault.code in _STANDING:
            self._feed(_STANDING[fault.code])
        trouble = trouble_of(fault)
        if trouble is None:
            log.debug("a request was refused: %s", fault)
            if isinstance(fault, ProblemError) and self._known.troubles.clear(*_NO_ANSWER):
                self._changed()
            return
        reason, text = trouble
        self._known.troubles.clear(*(other for other in LINK_TROUBLES if other != reason))
        if self._known.troubles.set(reason, text):
            log.warning("%s", text)
        self._changed()

    def control_seen(self, control: Control) -> None:
        self._known.console_seen = True
        self._feed(lives.ConsoleMode(control.console_mode))
        held = control.held
        self._feed(lives.Quarantined(held=held == "confirm-needed", contested=held == "credential-conflict"))
        self.control_watch(control)

    def authorization_seen(self, authorization: Authorization) -> None:
        self._known.note_authorization(authorization)
        self._feed(lives.AuthorizationSeen(expired=authorization.remaining_s <= 0))

    def offer_seen(self, offer: Offer, jws: str) -> bool:
        times = self._met.count(offer.attempt_id)
        if self._slot.knows(offer.attempt_id) or times >= _SAME_OFFER:
            return False
        self._met.append(offer.attempt_id)
        self.open_offer = (offer, jws)
        obstacle = find_obstacle(self._known.machine, self._journal)
        self._feed(lives.OfferSeen(obstacle=obstacle[0] if obstacle else ""))
        return times == 0

    def lease_seen(self, lease: LeaseState, sent_at: float) -> None:
        if lease.verdict in ("ok", "revived", "cancel") and self._slot.runs(lease.attempt_id):
            self._slot.confirm_lease(sent_at)
            self._feed(lives.LeaseHeld())
        match lease.verdict:
            case "cancel" if self._slot.runs(lease.attempt_id):
                self._feed(lives.CancelOrdered())
            case "cancel":
                self._slot.closing.cancel(lease.attempt_id)
            case "superseded":
                self._lose(lease.attempt_id)
            case "unknown":
                if not self.unknown(lease.attempt_id):
                    self._lose(lease.attempt_id)
            case _:
                return

    def revoked(self, revocation: Revocation) -> None:
        if self._known.enrollment is None:
            return  # a late answer; all is forgotten already
        self._known.revocation = revocation
        self._feed(lives.Revoked())

    # DeliveryWatch

    async def delivered(self, attempt_id: str) -> None:
        await self._slot.closing.forget(attempt_id)
        self._delivered(attempt_id)
        self._changed()

    async def refused(self, attempt_id: str, why: str) -> None:
        log.warning("the coordinator takes nothing more of %s: %s", attempt_id, why)
        if self._slot.runs(attempt_id):
            self._feed(lives.Superseded())
        else:
            await self._slot.closing.set_aside(attempt_id)

    def unknown(self, attempt_id: str) -> bool:
        """A coordinator that was restored from a backup may remember when it sees its own signed offer again."""
        contact, shown_at = self._known.contact, self._shown.get(attempt_id)
        if contact is None or (shown_at is not None and shown_at < self._sessions):
            return False
        if shown_at is None:
            log.warning("the coordinator does not know %s; it is shown its offer again", attempt_id)
            self._shown[attempt_id] = self._sessions
            contact.reconnect()
        return True

    def link_failed(self, fault: Exception) -> None:
        if self._known.contact is not None:
            self._known.contact.note(fault)
        elif isinstance(fault, WorkerRevoked):
            self.revoked(fault.revocation)

    def _lose(self, attempt_id: str) -> None:
        """Another attempt holds the job, or the coordinator knows nothing of this one."""
        self._shown.pop(attempt_id, None)
        if self._slot.runs(attempt_id):
            self._feed(lives.Superseded())
        else:
            self._slot.closing.abandon(attempt_id)


def _held(row: AttemptRow) -> HeldAttempt:
    return HeldAttempt(
        attempt_id=row.attempt_id,
        epoch=row.epoch,
        phase=row.phase,
        next_seq=row.next_seq,
        checkpoint_step=row.checkpoint.step if row.checkpoint else None,
        offer_jws=row.offer_jws,
        first_seq=row.server_next_seq,
    )
