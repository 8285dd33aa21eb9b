"""What the journal's state means for a person, and which of it keeps jobs away."""

from dataclasses import dataclass
from typing import Any

from worker_core.core.storage_view import journal_troubles, obstacle


@dataclass
class State:
    """A journal as it may be."""

    fault: str = ""
    full: bool = False
    crowded: bool = False
    stalled_s: float = 0.0
    budget_bytes: int = 256 << 20

    def used_bytes(self) -> int:
        return 300 << 20


class Machine:
    """A machine that would take any job."""

    def obstacle(self) -> None:
        return None


ANY_MACHINE: Any = Machine()


def test_a_journal_that_is_well_says_nothing() -> None:
    assert journal_troubles(State()) == {}
    assert obstacle(ANY_MACHINE, State()) is None


def test_a_full_disk_is_called_that_and_any_other_fault_a_journal_that_cannot_be_written() -> None:
    assert journal_troubles(State(fault="The disk is full.", full=True)) == {"disk-full": "The disk is full."}
    assert list(journal_troubles(State(fault="It is read-only."))) == ["journal-unwritable"]
    assert obstacle(ANY_MACHINE, State(fault="It is read-only.")) == ("journal-unwritable", "It is read-only.")


def test_a_slow_disk_is_said_and_keeps_no_job_away() -> None:
    troubles = journal_troubles(State(stalled_s=7.4))
    assert "7 s" in troubles["disk-slow"]
    assert obstacle(ANY_MACHINE, State(stalled_s=7.4)) is None
    assert journal_troubles(State(stalled_s=1.0)) == {}


def test_a_crowded_outbox_takes_no_job_and_says_how_much_waits() -> None:
    found = obstacle(ANY_MACHINE, State(crowded=True))
    assert found is not None
    assert found[0] == "outbox-full"
    assert "300.0 MiB" in found[1]
