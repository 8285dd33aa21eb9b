"""Connections of a worker (S0–S7): session, token, authorization and the level-triggered control document."""

from typing import Annotated, Literal

import msgspec

from worker_core.wire.codec import Count, Message
from worker_core.wire.vocabulary import Mode, Reason, Word


class Meta(Message):
    """S0 answer."""

    gen: int
    api: tuple[int, int]
    server_time: str
    min_worker_version: str


class Authorization(Message):
    """A copy of the coordinator's authorization row; times are for display, ``remaining_s`` for logic."""

    expires_at: str
    remaining_s: float
    extend_while_healthy: bool
    hard_cap_at: str | None = None


class Observed(Message):
    """The control document the worker has seen last: coordinator generation and revision."""

    gen: int = 0
    rev: int = 0


class Control(Message):
    """What the coordinator wants of the worker; sent whenever the worker has observed another (gen, rev)."""

    gen: int
    rev: int
    console_mode: Mode
    authorization: Authorization
    by: str = ""
    reason: str = ""
    held: Word = ""
    """Why no job is offered until a person decides in the console, ``credential-conflict`` or ``confirm-needed``."""
    rotate_key: bool = False
    """The worker shall change its key at once (S6)."""
    next_coordinator_key: str | None = None
    """JWS of a :class:`worker_core.wire.signed.NextKey`: the key that will sign after this one."""


Interval = Annotated[float, msgspec.Meta(ge=0.1)]
"""Seconds between things done over and over: whatever a coordinator says, no worker spins."""
SlowInterval = Annotated[float, msgspec.Meta(ge=1)]
Wait = Annotated[float, msgspec.Meta(ge=0)]


class Parameters(Message):
    """Every interval of protocol.md §3 that a worker follows, in seconds; the coordinator's settings decide."""

    poll_wait_s: Interval = 25.0
    poll_read_timeout_s: Interval = 35.0
    heartbeat_s: Interval = 15.0
    stale_s: Interval = 45.0
    lease_ttl_s: Interval = 300.0
    token_refresh_from_s: SlowInterval = 300.0
    token_refresh_to_s: SlowInterval = 480.0
    extend_below_share: Annotated[float, msgspec.Meta(ge=0)] = 1 / 3
    extend_check_s: SlowInterval = 3600.0
    retry_cap_s: Interval = 60.0
    bulk_retry_cap_s: Interval = 300.0
    reconnect_spread_s: Wait = 2.0
    events_flush_s: Wait = 2.0
    events_max: Annotated[int, msgspec.Meta(ge=1)] = 500
    events_max_bytes: Annotated[int, msgspec.Meta(ge=4096)] = 256 * 1024
    checkpoint_upload_wait_s: Wait = 600.0
    silence_s: Interval = 300.0
    key_max_age_s: Interval = 365 * 86400.0


class Health(Message):
    """Worker's own evidence, with heartbeat and extension."""

    disk_free_share: float = 1.0
    disk_free_bytes: Count = 0
    failures_in_a_row: Count = 0
    loop_lag_s: float = 0.0
    degraded: tuple[Reason, ...] = ()


AttemptPhase = Literal["starting", "running", "stopping", "uploading", "finishing"]


class HeldAttempt(Message):
    """An attempt the worker holds when it connects."""

    attempt_id: str
    epoch: int
    phase: Word
    """An :data:`AttemptPhase`."""
    next_seq: Count
    checkpoint_step: Count | None = None
    offer_jws: str | None = None
    first_seq: Count = 0
    """The first event it can still send; what came before was acknowledged."""


InstanceId = Annotated[str, msgspec.Meta(max_length=100)]
"""Of one start of a core; bounded, because a coordinator keeps those of a conflict."""


class SessionRequest(Message):
    """S1 request. ``state`` and ``reasons`` are what the workstation shows about itself."""

    worker_id: str
    instance_id: InstanceId
    session_seq: Count
    boot_id: str
    version: str
    local_mode: Mode = "run"
    state: Word = "connecting"
    reasons: tuple[Reason, ...] = ()
    prev_instance_ids: Annotated[tuple[InstanceId, ...], msgspec.Meta(max_length=32)] = ()
    capabilities: dict[str, object] = {}
    """``host`` (:class:`worker_core.wire.pairing.Host` as JSON), ``kinds``, ``credential_store``."""
    held: tuple[HeldAttempt, ...] = ()


class Verdict(Message):
    """What becomes of a held attempt."""

    attempt_id: str
    verdict: Literal["continue", "stop", "upload_only", "keep_unknown"]


class SessionStarted(Message):
    """S1 answer."""

    session_id: str
    session_seq: Count
    token: str
    token_ttl: float
    control: Control
    params: Parameters
    verdicts: tuple[Verdict, ...] = ()
    version: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """The coordinator's own version: a worker that is older than it can be updated."""


class TokenIssued(Message):
    """S2 answer; an older token stays good for 60 s."""

    token: str
    token_ttl: float


class KeyChange(Message):
    """S6 request: a DPoP proof for this very request by the new key, bound to the token as every proof is."""

    proof: str


class Goodbye(Message):
    """S3 request."""

    reason: str = ""


class ExtendRequest(Message):
    """S4 request."""

    health: Health = Health()


class ExtendAnswer(Message):
    """S4 answer; ``reasons`` say why it was not extended."""

    authorization: Authorization
    extended: bool
    reasons: tuple[str, ...] = ()
