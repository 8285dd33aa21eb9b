"""What the journal finds when it is opened, and the marks it leaves after a power cut."""

from dataclasses import dataclass

from worker_core.journal import outbox, tables
from worker_core.journal.driver import Connection
from worker_core.journal.histories import History
from worker_core.wire.codec import encode
from worker_core.wire.events import Gap

_BOOT = "journal.boot"
_CLEAN = "journal.closed"


@dataclass(frozen=True)
class Held:
    """An attempt that is not forgotten: where its numbers go on, what the coordinator lacks, its history."""

    attempt_id: str
    next_seq: int
    untaken: tuple[int, int]
    history: History


@dataclass(frozen=True)
class Start:
    """Everything the journal keeps in memory."""

    held: list[Held]
    uncertain: set[str]
    facts: dict[str, str]
    upload_bytes: int


def read_start(connection: Connection, boot_id: str, now: float) -> Start:
    """Read what is there. After another boot without a clean end, running attempts may have lost their last events."""
    facts: dict[str, str] = dict(connection.execute("SELECT name, text FROM fact").fetchall())
    other_boot = facts.get(_BOOT, boot_id) != boot_id
    tables.put_fact(connection, _BOOT, boot_id)
    tables.put_fact(connection, _CLEAN, None)
    if other_boot:
        tables.forget_processes(connection)
    if other_boot and _CLEAN not in facts:
        _mark_gaps(connection, now)
    held = [_read_held(connection, row.attempt_id) for row in tables.held_attempts(connection)]
    return Start(
        held=held,
        uncertain=outbox.uncertain_attempts(connection),
        facts={name: text for name, text in facts.items() if name not in (_BOOT, _CLEAN)},
        upload_bytes=tables.waiting_bytes(connection),
    )


def mark_closed(connection: Connection) -> None:
    """Note that the journal was closed in order."""
    tables.put_fact(connection, _CLEAN, "yes")


def _mark_gaps(connection: Connection, now: float) -> None:
    gap = encode(Gap(ts=now, reason="the computer stopped; events just before it may be lost"))
    for row in tables.held_attempts(connection):
        # The end of an attempt is a durable commit, and every event of it came before.
        if row.end is None:
            outbox.mark_uncertain(connection, row.attempt_id, row.next_seq)
            outbox.insert_events(connection, [(row.attempt_id, row.next_seq, gap)])


def _read_held(connection: Connection, attempt_id: str) -> Held:
    history = History.load(connection, attempt_id)
    for metric in outbox.metrics_since_saved(connection, attempt_id):
        history.add(metric)
    row = tables.held_attempt(connection, attempt_id)
    next_seq = row.next_seq if row else 0
    return Held(attempt_id, next_seq, outbox.untaken(connection, attempt_id), history)
