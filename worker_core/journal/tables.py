"""Statements on attempts, uploads and endings: each a function of a connection, run inside a transaction."""

from typing import Any, TypeVar

import msgspec

from worker_core.journal.driver import Connection
from worker_core.journal.records import (
    ArtifactKind,
    AttemptEnd,
    AttemptRow,
    CheckpointRow,
    NewAttempt,
    UploadRow,
    UploadState,
)
from worker_core.wire.codec import decode, encode
from worker_core.wire.frames import Done
from worker_core.wire.work import Accepted

T = TypeVar("T")

_ATTEMPT_COLUMNS = (
    "attempt_id, job_id, job_name, kind, ordinal, epoch, offer_jws, accepted, phase, created, pid, pid_started, "
    "server_next_seq, checkpoint, done, ended, "
    "max(server_next_seq, coalesce((SELECT seq + span FROM event e WHERE e.attempt_id = attempt.attempt_id "
    "ORDER BY seq DESC LIMIT 1), 0))"
)
_UPLOAD_COLUMNS = "attempt_id, sha256, name, kind, size, step, state, reason, artifact_id, upload_id"


def insert_attempt(connection: Connection, attempt: NewAttempt, created: float) -> None:
    """Add an attempt that is about to run."""
    plain = {name: getattr(attempt, name) for name in attempt.__struct_fields__}
    plain |= {"accepted": encode(attempt.accepted), "created": created}
    connection.execute(
        """INSERT INTO attempt (attempt_id, job_id, job_name, kind, ordinal, epoch, offer_jws, accepted, phase, created)
           VALUES (:attempt_id, :job_id, :job_name, :kind, :ordinal, :epoch, :offer_jws, :accepted, 'starting',
                   :created)""",
        plain,
    )


def held_attempts(connection: Connection) -> list[AttemptRow]:
    """Return the attempts that are not forgotten, oldest first."""
    rows = connection.execute(
        f"SELECT {_ATTEMPT_COLUMNS} FROM attempt WHERE forgotten = 0 ORDER BY created, attempt_id"
    ).fetchall()
    return [_attempt(row) for row in rows]


def held_attempt(connection: Connection, attempt_id: str) -> AttemptRow | None:
    """Return one attempt that is not forgotten."""
    row = connection.execute(
        f"SELECT {_ATTEMPT_COLUMNS} FROM attempt WHERE forgotten = 0 AND attempt_id = ?", (attempt_id,)
    ).fetchone()
    return None if row is None else _attempt(row)


def knows_attempt(connection: Connection, attempt_id: str) -> bool:
    """Tell whether an attempt was ever taken here (as far back as the journal goes)."""
    return connection.execute("SELECT 1 FROM attempt WHERE attempt_id = ?", (attempt_id,)).fetchone() is not None


def set_column(connection: Connection, attempt_id: str, column: str, value: object) -> None:
    """Change one column of an attempt; structs are kept as JSON."""
    plain = encode(value) if isinstance(value, msgspec.Struct) else value
    connection.execute(f"UPDATE attempt SET {column} = ? WHERE attempt_id = ?", (plain, attempt_id))


def forget_processes(connection: Connection) -> None:
    """Remove the numbers of processes that ended with the computer: by now they may be those of others."""
    connection.execute("UPDATE attempt SET pid = NULL, pid_started = NULL")


def forget_attempt(connection: Connection, attempt_id: str) -> None:
    """Remove all that was kept for delivery; the row stays for the history and against a repeated offer."""
    for table in ("event", "upload", "ending"):
        connection.execute(f"DELETE FROM {table} WHERE attempt_id = ?", (attempt_id,))
    connection.execute(
        "UPDATE attempt SET forgotten = 1, offer_jws = '', accepted = x'' WHERE attempt_id = ?", (attempt_id,)
    )


def insert_upload(connection: Connection, upload: UploadRow) -> None:
    """Add a file to deliver; a newer checkpoint makes older ones that still wait needless."""
    if upload.kind == "checkpoint":
        connection.execute(
            "DELETE FROM upload WHERE attempt_id = ? AND kind = 'checkpoint' AND state = 'waiting'",
            (upload.attempt_id,),
        )
    plain = {name: getattr(upload, name) for name in upload.__struct_fields__}
    connection.execute(
        f"INSERT OR IGNORE INTO upload ({_UPLOAD_COLUMNS}) VALUES (:attempt_id, :sha256, :name, :kind, :size, :step, "
        ":state, :reason, :artifact_id, :upload_id)",
        plain,
    )


def list_uploads(connection: Connection, attempt_id: str | None, unfinished: bool) -> list[UploadRow]:
    """Return uploads, of one attempt or of all, in the order they were added."""
    rows = connection.execute(
        f"""SELECT {_UPLOAD_COLUMNS} FROM upload WHERE (?1 IS NULL OR attempt_id = ?1)
            AND (NOT ?2 OR state IN ('waiting', 'sending')) ORDER BY rowid""",
        (attempt_id, unfinished),
    ).fetchall()
    return [_upload(row) for row in rows]


def update_upload(
    connection: Connection,
    attempt_id: str,
    sha256: str,
    only: tuple[str, str] | None,
    state: UploadState,
    reason: str,
    ids: tuple[Any, Any],
) -> None:
    """Change how far uploads of these bytes are, ``only`` that of a kind and name; ids of None stay as they were."""
    connection.execute(
        """UPDATE upload SET state = ?, reason = ?, artifact_id = coalesce(?, artifact_id),
           upload_id = coalesce(?, upload_id)
           WHERE attempt_id = ? AND sha256 = ? AND (? IS NULL OR (kind, name) = (?, ?))""",
        (state, reason, *ids, attempt_id, sha256, only and only[0], *(only or ("", ""))),
    )


def waiting_bytes(connection: Connection) -> int:
    """Return the size of all files still to deliver."""
    row = connection.execute("SELECT coalesce(sum(size), 0) FROM upload WHERE state IN ('waiting', 'sending')")
    return row.fetchone()[0]


def put_ending(connection: Connection, attempt_id: str, column: str, body: msgspec.Struct) -> None:
    """Keep the last request of an attempt: its ``completion`` or how it was ``released``."""
    connection.execute("INSERT OR IGNORE INTO ending (attempt_id) VALUES (?)", (attempt_id,))
    connection.execute(f"UPDATE ending SET {column} = ? WHERE attempt_id = ?", (encode(body), attempt_id))


def read_ending(connection: Connection, attempt_id: str, column: str, kind: type[T]) -> T | None:
    """Return what :func:`put_ending` kept."""
    row = connection.execute(f"SELECT {column} FROM ending WHERE attempt_id = ?", (attempt_id,)).fetchone()
    return None if row is None else _optional(row[0], kind)


def put_fact(connection: Connection, name: str, text: str | None) -> None:
    """Keep a text under a name, or remove it."""
    if text is None:
        connection.execute("DELETE FROM fact WHERE name = ?", (name,))
    else:
        connection.execute("INSERT OR REPLACE INTO fact (name, text) VALUES (?, ?)", (name, text))


def delete_all(connection: Connection) -> None:
    """Remove every attempt with all that belongs to it, and every fact that is not about the file itself."""
    connection.execute("DELETE FROM attempt")
    connection.execute("DELETE FROM set_aside")
    connection.execute("DELETE FROM fact WHERE name NOT LIKE 'journal.%'")


def _attempt(row: tuple[Any, ...]) -> AttemptRow:
    return AttemptRow(
        attempt_id=row[0],
        job_id=row[1],
        job_name=row[2],
        kind=row[3],
        ordinal=row[4],
        epoch=row[5],
        offer_jws=row[6],
        accepted=decode(row[7], Accepted),
        phase=row[8],
        created=row[9],
        pid=row[10],
        pid_started=row[11],
        server_next_seq=row[12],
        checkpoint=_optional(row[13], CheckpointRow),
        done=_optional(row[14], Done),
        end=_optional(row[15], AttemptEnd),
        next_seq=row[16],
    )


def _upload(row: tuple[Any, ...]) -> UploadRow:
    kind: ArtifactKind = row[3]
    return UploadRow(
        attempt_id=row[0],
        sha256=row[1],
        name=row[2],
        kind=kind,
        size=row[4],
        step=row[5],
        state=row[6],
        reason=row[7],
        artifact_id=row[8],
        upload_id=row[9],
    )


def _optional(packed: bytes | None, kind: type[T]) -> T | None:
    return None if packed is None else decode(packed, kind)
