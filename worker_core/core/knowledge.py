"""What the core knows at this moment, in one place; the state machine's life is part of it."""

from dataclasses import dataclass, field

from worker_core.core.enrollment import Enrollment, Farewell
from worker_core.core.giving_back import GivingBack
from worker_core.core.gpu_care import GpuCare
from worker_core.core.life import Life
from worker_core.core.machine_view import MachineView
from worker_core.core.pairings import OpenPairing
from worker_core.core.recent_ends import RecentEnds
from worker_core.core.rules.duty import OwnerDuty
from worker_core.core.shown import Facts
from worker_core.core.troubles import Troubles
from worker_core.core.version import VERSION
from worker_core.link.contact import Contact
from worker_core.machine.clocks import Clock
from worker_core.wire.session import Authorization
from worker_core.wire.signed import Revocation
from worker_core.wire.status import JobShown, OutboxShown
from worker_core.wire.work import OutboxSize


@dataclass
class Knowledge:
    """Facts of the core, changed only by the core's own loop."""

    clock: Clock
    machine: MachineView
    gpu_care: GpuCare
    giving_back: GivingBack
    owner: OwnerDuty
    pid: int
    started_by: str
    life: Life = field(default_factory=Life)
    troubles: Troubles = field(default_factory=Troubles)
    started_at: float = 0.0
    enrollment: Enrollment | None = None
    foreign: Enrollment | None = None
    """The enrollment of another computer, in a home that was copied from there."""
    revocation: Revocation | None = None
    farewell: Farewell | None = None
    pairing: OpenPairing | None = None
    contact: Contact | None = None
    authorization: Authorization | None = None
    authorization_at: float = 0.0
    authorization_length_s: float = 0.0
    """Its full length, as far as we saw it: an extension is asked for in its last third."""
    console_seen: bool = False
    embedded_coordinator: bool = False
    failures_in_a_row: int = 0
    loop_lag_s: float = 0.0
    may_run_s: float = 0.0
    """For how long the running job goes on if nothing is heard from the coordinator."""

    def contact_age_s(self) -> float:
        """Seconds since the coordinator answered, or since this core started while it has not."""
        answered = self.contact.client.link.last_answer if self.contact is not None else None
        return self.clock.now() - (answered if answered is not None else self.started_at)

    def stale_s(self) -> float:
        """After how long without an answer the contact counts as lost."""
        return self.contact.connection.params.stale_s if self.contact is not None else 45.0

    def in_contact(self) -> bool:
        """Whether the coordinator answers."""
        return self.contact is not None and self.contact_age_s() <= self.stale_s()

    def note_authorization(self, seen: Authorization) -> None:
        """Take a new copy of the authorization."""
        if self.authorization is None:
            stored_s = self.enrollment.authorization_s if self.enrollment is not None else 0.0
            self.authorization_length_s = max(stored_s, seen.remaining_s)
        elif seen.expires_at != self.authorization.expires_at:
            self.authorization_length_s = seen.remaining_s
        self.authorization, self.authorization_at = seen, self.clock.now()

    def remaining_s(self) -> float | None:
        """Seconds of authorization left, by our copy of it and its age."""
        if self.authorization is None:
            return None
        return self.authorization.remaining_s - (self.clock.now() - self.authorization_at)

    def facts(self, job: JobShown | None, outbox: OutboxSize, ends: RecentEnds) -> Facts:
        """Return everything that is shown."""
        link = self.contact.client.link if self.contact is not None else None
        return Facts(
            life=self.life,
            pid=self.pid,
            version=VERSION,
            started_by=self.started_by,
            stale_s=self.stale_s(),
            contact_age_s=self.contact_age_s() if self.enrollment is not None else None,
            contacted=link is not None and link.last_answer is not None,
            console_seen=self.console_seen,
            clock_offset_s=link.clock_offset_s if link is not None else 0.0,
            enrollment=self.enrollment,
            foreign=self.foreign,
            farewell=self.farewell,
            authorization=self.authorization,
            authorization_age_s=self.clock.now() - self.authorization_at,
            troubles=self.troubles.as_dict() | self.gpu_care.troubles() | self.machine.safety.troubles(),
            job=job,
            gpus=self.gpu_care.shown(),
            load=self.machine.load,
            outbox=OutboxShown(events=outbox.events, bytes=outbox.bytes),
            containment=self.machine.safety.shown(),
            pairing=self.pairing.shown(self.clock.now()) if self.pairing is not None else None,
            credential_store=self._credential_store(),
            embedded_coordinator=self.embedded_coordinator,
            ends=ends,
            given_back=self.giving_back.shown(),
            owner=self.owner.shown(),
            owner_reasons=self.owner.reasons(),
            coordinator_version=self.contact.connection.coordinator_version if self.contact is not None else "",
            may_run_s=self.may_run_s,
        )

    def _credential_store(self) -> str | None:
        if self.enrollment is not None:
            return self.enrollment.credential_store
        return self.pairing.store.kind if self.pairing is not None else None
