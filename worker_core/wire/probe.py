"""What a short test of one GPU found: printed by the probe process, read by the core."""

from worker_core.wire.codec import Count, Message
from worker_core.wire.vocabulary import FailureClass


class ProbeResult(Message):
    """One test of one GPU: it answers, its memory can be had, and it calculates right."""

    ok: bool
    failure: FailureClass | None = None
    text: str = ""
    """What went wrong, in words."""
    name: str = ""
    free_bytes: Count = 0
    total_bytes: Count = 0
    seconds: float = 0.0
