"""What stands in a journal, in figures: for people who look for a fault, while a core runs or not.

Nothing here changes the file, and nothing of what jobs said is read: no metric, no line, no spec.
"""

from pathlib import Path

import msgspec

from worker_core.journal import aside
from worker_core.journal.driver import SQLITE_VERSION, Connection, Error, connect_to_read
from worker_core.journal.records import AttemptEnd, JournalError, SetAside
from worker_core.journal.schema import MIGRATIONS
from worker_core.wire.codec import BadMessage, Message, decode

RECENT_ATTEMPTS = 20


class AttemptSummary(Message):
    """One attempt: where it stands, and what of it waits."""

    attempt_id: str
    job_id: str
    kind: str
    ordinal: int
    epoch: int
    phase: str
    created: float
    forgotten: bool
    server_next_seq: int
    events_waiting: int = 0
    events_bytes: int = 0
    uploads_waiting: int = 0
    uploads_bytes: int = 0
    checkpoint: bool = False
    how: str = ""
    outcome: str = ""
    failure: str = ""
    message: str = ""
    exit: int | None = None
    note: str = ""


class JournalSummary(Message):
    """A journal in figures."""

    file_bytes: int
    log_bytes: int
    sqlite: str
    version: int
    newest_known_version: int
    attempts: tuple[AttemptSummary, ...]
    """The newest, newest first."""
    attempts_total: int
    events_waiting: int
    events_bytes: int
    series: int
    facts: tuple[str, ...]
    """Their names."""
    set_aside: tuple[SetAside, ...]


def read_summary(path: Path) -> JournalSummary:
    """Read the figures; raises :class:`worker_core.journal.records.JournalError`."""
    if not path.exists():
        raise JournalError(f"There is no journal at {path}.")
    try:
        connection = connect_to_read(path)
    except Error as error:
        raise JournalError(f"The journal {path} cannot be read: {error}.") from error
    try:
        return _summary(connection, path)
    except (Error, BadMessage) as error:
        raise JournalError(f"The journal {path} cannot be read: {error}.") from error
    finally:
        connection.close()


def _summary(connection: Connection, path: Path) -> JournalSummary:
    events, size = connection.execute("SELECT count(*), coalesce(sum(length(body)), 0) FROM event").fetchone()
    wal = path.with_name(f"{path.name}-wal")
    return JournalSummary(
        file_bytes=path.stat().st_size,
        log_bytes=wal.stat().st_size if wal.exists() else 0,
        sqlite=SQLITE_VERSION,
        version=_number(connection, "PRAGMA user_version"),
        newest_known_version=len(MIGRATIONS),
        attempts=tuple(_attempts(connection)),
        attempts_total=_number(connection, "SELECT count(*) FROM attempt"),
        events_waiting=events,
        events_bytes=size,
        series=_number(connection, "SELECT count(*) FROM series"),
        facts=tuple(name for (name,) in connection.execute("SELECT name FROM fact ORDER BY name")),
        set_aside=tuple(aside.list_aside(connection)),
    )


def _number(connection: Connection, query: str) -> int:
    return connection.execute(query).fetchone()[0]


def _attempts(connection: Connection) -> list[AttemptSummary]:
    rows = connection.execute(
        """SELECT attempt_id, job_id, kind, ordinal, epoch, phase, created, forgotten, server_next_seq,
                  checkpoint IS NOT NULL, ended FROM attempt ORDER BY created DESC, attempt_id DESC LIMIT ?""",
        (RECENT_ATTEMPTS,),
    ).fetchall()
    return [_attempt(connection, row) for row in rows]


def _attempt(connection: Connection, row: tuple[object, ...]) -> AttemptSummary:
    names = ("attempt_id", "job_id", "kind", "ordinal", "epoch", "phase", "created", "forgotten", "server_next_seq")
    plain: dict[str, object] = dict(zip(names, row, strict=False))
    events, events_bytes = connection.execute(
        """SELECT count(*), coalesce(sum(length(body)), 0) FROM event WHERE attempt_id = ? AND seq >= ?""",
        (row[0], row[8]),
    ).fetchone()
    uploads, uploads_bytes = connection.execute(
        """SELECT count(*), coalesce(sum(size), 0) FROM upload WHERE attempt_id = ?
           AND state IN ('waiting', 'sending')""",
        (row[0],),
    ).fetchone()
    counted = {
        "events_waiting": events,
        "events_bytes": events_bytes,
        "uploads_waiting": uploads,
        "uploads_bytes": uploads_bytes,
        "checkpoint": bool(row[9]),
        "forgotten": bool(row[7]),
    }
    return msgspec.convert({**plain, **counted, **_end(row[10])}, AttemptSummary)


def _end(packed: object) -> dict[str, object]:
    if not isinstance(packed, bytes):
        return {}
    end = decode(packed, AttemptEnd)
    error = end.error
    return {
        "how": end.how,
        "outcome": end.outcome or "",
        "failure": error.failure if error else "",
        "message": error.message if error else "",
        "exit": end.exit,
        "note": end.note,
    }
