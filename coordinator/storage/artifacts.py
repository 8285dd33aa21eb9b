"""Rows of artifacts, uploads and blobs: what an account holds, by content, and what still arrives."""

from typing import Literal

import msgspec
from sqlalchemy import ColumnElement, Connection, RowMapping, delete, exists, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from coordinator.storage.schema_queue import artifact as artifact_table
from coordinator.storage.schema_queue import attempt as attempt_table
from coordinator.storage.schema_queue import blob as blob_table
from coordinator.storage.schema_queue import job as job_table
from coordinator.storage.schema_queue import upload as upload_table
from worker_core.wire.ids import new_id

Kind = Literal["checkpoint", "result", "input"]


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the artifact table."""

    id: str
    account_id: str
    job_id: str | None
    attempt_id: str | None
    ordinal: int
    name: str
    kind: Kind
    sha256: str
    size: int
    step: int | None
    state: Literal["ready", "uploading"]
    created_at: float


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the upload table."""

    id: str
    account_id: str
    worker_id: str | None
    artifact_id: str
    sha256: str
    size: int
    offset: int
    done: int
    last_byte_at: float


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact that is announced: by an attempt, or by a person as an input."""

    account_id: str
    name: str
    kind: Kind
    sha256: str
    size: int
    step: int | None = None
    job_id: str | None = None
    attempt_id: str | None = None
    ordinal: int = 0


def as_artifact(row: RowMapping) -> Artifact:
    """Return a full row of the artifact table as a value."""
    return Artifact(**row)


def find_artifact(conn: Connection, account_id: str, artifact_id: str) -> Artifact | None:
    """Return an artifact of this account."""
    mine = (artifact_table.c.id == artifact_id, artifact_table.c.account_id == account_id)
    return _first(conn, *mine)


def find_announced(conn: Connection, new: NewArtifact) -> Artifact | None:
    """Return the artifact that was announced by the same request before."""
    a = artifact_table.c
    owner = a.attempt_id == new.attempt_id if new.attempt_id else a.attempt_id.is_(None) & a.job_id.is_(None)
    return _first(
        conn, a.account_id == new.account_id, owner, a.kind == new.kind, a.name == new.name, a.sha256 == new.sha256
    )


def latest_checkpoint(conn: Connection, attempt_id: str, sha256: str | None = None) -> Artifact | None:
    """Return the newest finished checkpoint of an attempt, or the one with this content."""
    a = artifact_table.c
    query = select(artifact_table).where(a.attempt_id == attempt_id, a.kind == "checkpoint", a.state == "ready")
    if sha256 is not None:
        query = query.where(a.sha256 == sha256)
    row = conn.execute(query.order_by(a.step.desc(), a.id.desc()).limit(1)).mappings().first()
    return as_artifact(row) if row is not None else None


def ready_contents(conn: Connection, attempt_id: str) -> set[str]:
    """Return the sha256 of everything an attempt has delivered."""
    a = artifact_table.c
    query = select(a.sha256).where(a.attempt_id == attempt_id, a.state == "ready")
    return set(conn.execute(query).scalars())


def artifacts_of_job(conn: Connection, job_id: str) -> list[Artifact]:
    """Return the artifacts of a job, newest first."""
    query = select(artifact_table).where(artifact_table.c.job_id == job_id).order_by(artifact_table.c.id.desc())
    return [as_artifact(row) for row in conn.execute(query).mappings()]


def add_artifact(conn: Connection, new: NewArtifact, state: Literal["ready", "uploading"], now: float) -> Artifact:
    """Create an artifact row."""
    artifact = Artifact(id=new_id("art"), state=state, created_at=now, **msgspec.structs.asdict(new))
    conn.execute(insert(artifact_table).values(msgspec.structs.asdict(artifact)))
    return artifact


def holds_blob(conn: Connection, account_id: str, sha256: str, size: int) -> bool:
    """Tell whether this account holds these bytes; other accounts' holdings are never told."""
    b = blob_table.c
    mine = exists().where(b.account_id == account_id, b.sha256 == sha256, b.size == size)
    return bool(conn.execute(select(mine)).scalar())


def held_bytes(conn: Connection, account_id: str) -> int:
    """Return how much an account stores, uploads that still grow at their full size."""
    stored = select(func.sum(blob_table.c.size)).where(blob_table.c.account_id == account_id)
    growing = select(func.sum(upload_table.c.size)).where(
        upload_table.c.account_id == account_id, upload_table.c.done == 0
    )
    return (conn.execute(stored).scalar() or 0) + (conn.execute(growing).scalar() or 0)


def open_upload(conn: Connection, artifact: Artifact, worker_id: str | None, now: float) -> Upload:
    """Return the upload of an artifact that is not there yet, made when there is none."""
    u = upload_table.c
    query = select(upload_table).where(u.artifact_id == artifact.id, u.done == 0)
    row = conn.execute(query).mappings().first()
    if row is not None:
        conn.execute(update(upload_table).where(u.id == row["id"]).values(last_byte_at=now, worker_id=worker_id))
        return Upload(**row)
    upload = Upload(
        id=new_id("upl"),
        account_id=artifact.account_id,
        worker_id=worker_id,
        artifact_id=artifact.id,
        sha256=artifact.sha256,
        size=artifact.size,
        offset=0,
        done=0,
        last_byte_at=now,
    )
    conn.execute(insert(upload_table).values(msgspec.structs.asdict(upload)))
    return upload


def find_upload(conn: Connection, upload_id: str, account_id: str, worker_id: str | None) -> Upload | None:
    """Return an upload of this worker, or of a person of this account."""
    u = upload_table.c
    owner = u.worker_id == worker_id if worker_id else u.worker_id.is_(None)
    query = select(upload_table).where(u.id == upload_id, u.account_id == account_id, owner)
    row = conn.execute(query).mappings().first()
    return Upload(**row) if row is not None else None


def move_offset(conn: Connection, upload: Upload, offset: int, now: float) -> bool:
    """Note that bytes arrived; False when somebody else moved it meanwhile."""
    u = upload_table.c
    at = (u.id == upload.id, u.offset == upload.offset, u.done == 0)
    return conn.execute(update(upload_table).where(*at).values(offset=offset, last_byte_at=now)).rowcount == 1


def complete_upload(conn: Connection, upload: Upload, now: float) -> None:
    """The bytes are there under their name: the account holds them and the artifact is ready."""
    held = {"account_id": upload.account_id, "sha256": upload.sha256, "size": upload.size}
    kept = upsert(blob_table).values(**held, created_at=now, used_at=now)
    conn.execute(kept.on_conflict_do_update(index_elements=["account_id", "sha256"], set_={"used_at": now}))
    conn.execute(update(upload_table).where(upload_table.c.id == upload.id).values(done=1, offset=upload.size))
    mark_ready(conn, upload.artifact_id)


def mark_ready(conn: Connection, artifact_id: str) -> None:
    """Make an artifact visible whose bytes are here already."""
    arriving = (artifact_table.c.id == artifact_id, artifact_table.c.state == "uploading")
    conn.execute(update(artifact_table).where(*arriving).values(state="ready"))


def touch_blob(conn: Connection, account_id: str, sha256: str, now: float) -> None:
    """Keep a blob that is about to be used from being collected."""
    mine = (blob_table.c.account_id == account_id, blob_table.c.sha256 == sha256)
    conn.execute(update(blob_table).where(*mine).values(used_at=now))


def forget_uploads(conn: Connection, before: float) -> None:
    """Drop uploads without a byte since ``before``, with artifacts that never arrived."""
    u = upload_table.c
    old = conn.execute(select(u.id, u.artifact_id).where(u.last_byte_at < before)).all()
    for upload_id, artifact_id in old:
        conn.execute(delete(upload_table).where(u.id == upload_id))
        conn.execute(
            delete(artifact_table).where(artifact_table.c.id == artifact_id, artifact_table.c.state == "uploading")
        )


def forget_blobs(conn: Connection, before: float) -> None:
    """Drop blobs nothing refers to and nobody used since ``before``."""
    b, a = blob_table.c, artifact_table.c
    named = exists().where(a.account_id == b.account_id, a.sha256 == b.sha256, a.job_id.is_not(None))
    idle = conn.execute(select(b.account_id, b.sha256).where(b.used_at < before, ~named)).all()
    for account_id, sha256 in idle:
        conn.execute(delete(artifact_table).where(a.account_id == account_id, a.sha256 == sha256, a.job_id.is_(None)))
        conn.execute(delete(blob_table).where(b.account_id == account_id, b.sha256 == sha256))


def forget_superseded(conn: Connection, before: float) -> None:
    """Drop what attempts left that lost their job to another before ``before``, unless a job resumes from it."""
    a, t, j = artifact_table.c, attempt_table.c, job_table.c
    gone = select(t.id).where(t.state == "superseded", t.ended_at < before)
    resumed = exists().where(j.id == a.job_id, j.resume_sha256 == a.sha256)
    conn.execute(delete(artifact_table).where(a.attempt_id.in_(gone), ~resumed))


def growing_uploads(conn: Connection) -> set[str]:
    """Return the ids of the uploads that are not finished."""
    return set(conn.execute(select(upload_table.c.id).where(upload_table.c.done == 0)).scalars())


def held_contents(conn: Connection) -> set[str]:
    """Return the sha256 of everything any account holds."""
    return set(conn.execute(select(blob_table.c.sha256)).scalars())


def _first(conn: Connection, *where: ColumnElement[bool]) -> Artifact | None:
    row = conn.execute(select(artifact_table).where(*where).order_by(artifact_table.c.id)).mappings().first()
    return as_artifact(row) if row is not None else None
