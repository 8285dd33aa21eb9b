"""The worker's status as `stoker status --json` prints it and the control channel's snapshot carries it."""

from typing import Literal, dataclass_transform

import msgspec

from worker_core.wire.codec import Count
from worker_core.wire.vocabulary import Mode, Reason, Word, WorkerState


@dataclass_transform(frozen_default=True, kw_only_default=True)
class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Like a message, but every key is always there."""


class ModesShown(_Shown):
    console: Mode | None = None
    here: Mode = "run"


class AuthorizationShown(_Shown):
    expires_at: str
    remaining_s: float
    extend_while_healthy: bool


class FlagShown(_Shown):
    """Something that goes wrong in a training, with the step at which it was seen."""

    step: Count
    flag: Word
    text: str
    action: Word = "warn"


class JobShown(_Shown):
    id: str
    attempt: int
    epoch: int
    kind: str
    name: str
    step: Count = 0
    progress: float = 0.0
    eta_s: float | None = None
    checkpoint_age_s: float | None = None
    attempt_id: str = ""
    phase: str = ""
    flags: tuple[FlagShown, ...] = ()


EndedHow = Literal["succeeded", "failed", "canceled", "superseded", "released"]


class EndedShown(_Shown):
    """An attempt that left this worker."""

    attempt_id: str
    job_id: str
    name: str
    attempt: int
    outcome: EndedHow
    failure: Word = ""
    """A :data:`worker_core.wire.vocabulary.FailureClass`, when it failed."""
    message: str = ""
    at: float = 0.0
    """Wall time at which it was over, in seconds since 1970."""


class GivenBackShown(_Shown):
    """The owner has the machine back; ``mode`` ``run`` by hand ends it."""

    since: float
    """Seconds since 1970, as ``until``."""
    until: float | None = None
    """When jobs are taken again by itself; None when a person has to resume."""
    freed: bool = True
    freed_s: float | None = None
    """How long it took until the GPU was free; None while it is not, and where nobody measured it."""


class RuleShown(_Shown):
    """One of the owner's rules that holds jobs back now."""

    rule: Word
    """A :data:`worker_core.wire.owner_rules.RuleName`."""
    until: float | None = None
    """When it ends, where that is known (seconds since 1970)."""
    value: float | None = None
    """The temperature in °C of ``heat``; the seconds that nobody must use the machine yet of ``in-use``."""
    detail: str = ""
    """The program of ``program``."""


class OwnerShown(_Shown):
    """What the owner's rules ask for now."""

    mode: Mode = "run"
    rules: tuple[RuleShown, ...] = ()
    changes_at: float | None = None
    """When the hours begin or end next (seconds since 1970)."""
    unknown: tuple[Word, ...] = ()
    """Rules that are set and are off, because this machine does not tell what they need."""
    idle_source: str = ""
    """What tells how long nobody used the machine; empty when nothing does."""
    awake: Literal["", "held", "refused"] = ""
    """Whether the machine is kept from sleep."""
    awake_detail: str = ""


class UpdateShown(_Shown):
    """The coordinator runs a newer Stoker than this worker."""

    version: str
    required: bool = False
    """Without it no job is offered."""


class ContainmentShown(_Shown):
    """How this machine keeps jobs from the owner's files and programs, and what it bounds."""

    by: Literal["bubblewrap", "sandbox-exec", "job-object", "process-group"] = "process-group"
    network: bool = True
    """Whether a job may reach the network: it asks for it and the owner allows it, or nothing here keeps it from it."""
    limits: tuple[str, ...] = ()
    detail: str = ""
    """Why there is nothing stronger, and the cure."""


class GpuShown(_Shown):
    uuid: str
    name: str
    memory_bytes: Count = 0
    memory_used_bytes: Count | None = None
    busy_pct: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    driver: str = ""
    held: Reason | None = None
    """Why no job may have it now: ``gpu-quarantined``, ``gpu-untested``, ``gpu-memory-held``, ``gpu-busy``."""


class DeviceLoad(_Shown):
    """What the job's device does now; GPU figures are absent where there is none."""

    device: str = "cpu"
    cpu_pct: float | None = None
    ram_used_bytes: Count | None = None
    ram_total_bytes: Count | None = None


class OutboxShown(_Shown):
    events: Count = 0
    bytes: Count = 0


class PairingShown(_Shown):
    """While a pairing waits."""

    user_code: str
    verification_uri: str
    fingerprint: str
    expires_in_s: float
    coordinator: str
    email: str


class WorkerShown(_Shown):
    id: str
    name: str
    account: str = ""
    approved_by: str = ""


class WorkerStatus(_Shown):
    """Everything the face shows, each value true or with its age."""

    state: str
    """A :data:`WorkerState`, or ``not-running``."""
    reasons: tuple[Reason, ...] = ()
    mode: ModesShown = ModesShown()
    worker: WorkerShown | None = None
    coordinator: str | None = None
    contact_age_s: float | None = None
    authorization: AuthorizationShown | None = None
    job: JobShown | None = None
    gpus: tuple[GpuShown, ...] = ()
    load: DeviceLoad = DeviceLoad()
    outbox: OutboxShown = OutboxShown()
    containment: ContainmentShown = ContainmentShown()
    credential_store: str | None = None
    pairing: PairingShown | None = None
    detail: str = ""
    """One sentence a person can act on, when something needs attention."""
    pid: int | None = None
    version: str = ""
    started_by: str = ""
    """What started the core: ``desktop``, ``service`` or ``terminal``."""
    embedded_coordinator: bool = False
    job_ends: Count = 0
    """How many jobs ended since the core started (a face can tell that one ended between two snapshots)."""
    ended: tuple[EndedShown, ...] = ()
    """The last attempts that ended since the core started, the newest last."""
    update: UpdateShown | None = None
    given_back: GivenBackShown | None = None
    owner: OwnerShown = OwnerShown()


PAIRED_STATES: tuple[WorkerState, ...] = (
    "connecting",
    "available",
    "training",
    "draining",
    "paused",
    "offline",
    "problem",
    "expired",
)
