"""The journal as the core looks at it: what of its state a person should know, and what keeps jobs away."""

from typing import Protocol

from worker_core.core.machine_view import MachineView
from worker_core.wire.vocabulary import Reason

SLOW_DISK_S = 3.0
JOURNAL_REASONS: tuple[Reason, ...] = ("journal-unwritable", "outbox-full", "disk-slow")
_KEEPS_JOBS_AWAY: tuple[Reason, ...] = ("disk-full", "journal-unwritable", "outbox-full")


class JournalState(Protocol):
    """What is read of a journal."""

    @property
    def fault(self) -> str: ...

    @property
    def full(self) -> bool: ...

    @property
    def crowded(self) -> bool: ...

    @property
    def stalled_s(self) -> float: ...

    @property
    def budget_bytes(self) -> int: ...

    def used_bytes(self) -> int: ...


def journal_troubles(journal: JournalState) -> dict[Reason, str]:
    """Return what is wrong with the journal now, each with a sentence."""
    troubles: dict[Reason, str] = {}
    if journal.fault:
        troubles["disk-full" if journal.full else "journal-unwritable"] = journal.fault
    elif journal.stalled_s > SLOW_DISK_S:
        text = f"The disk has taken nothing for {journal.stalled_s:.0f} s; a running job may have to wait for it."
        troubles["disk-slow"] = text
    if journal.crowded:
        used, limit = _mebibytes(journal.used_bytes()), _mebibytes(journal.budget_bytes)
        troubles["outbox-full"] = (
            f"{used} MiB of events wait for the coordinator, the limit is {limit}. Old lines are left out, and no job "
            "is taken until most has arrived."
        )
    return troubles


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f}" if size >= 1 << 20 else f"{size / (1 << 20):.2g}"


def obstacle(machine: MachineView, journal: JournalState) -> tuple[Reason, str] | None:
    """Return why no job should be taken now, as a reason code and a sentence."""
    troubles = journal_troubles(journal)
    mine = next(((reason, troubles[reason]) for reason in _KEEPS_JOBS_AWAY if reason in troubles), None)
    return machine.obstacle() or mine
