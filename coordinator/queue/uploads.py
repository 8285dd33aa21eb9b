"""W6, W7, W9 and W10: artifacts come in by chunks, are hashed again as a whole, and go out by content.

Workers and people use the same protocol. An upload's offset moves only after the chunk's digest was checked and its
bytes are on the disk; an artifact is visible only after all of it was hashed.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from sqlalchemy import Connection

from coordinator.accounts.authorization import assert_worker_live
from coordinator.queue.attempts import Caller
from coordinator.queue.ledger import Ledger, may_write, superseded
from coordinator.queue.rows import Held, find_held
from coordinator.storage import artifacts as rows
from coordinator.storage.artifact_files import READ_BYTES, ArtifactFiles, Interrupted, read_range
from coordinator.storage.artifacts import Artifact, NewArtifact, Upload
from coordinator.storage.database import Database
from worker_core.wire.client import BlobRequest
from worker_core.wire.problems import problem
from worker_core.wire.work import ArtifactAnswer, ArtifactRequest, UploadTicket

RECHECK_BYTES = 8 << 20


class Uploader(msgspec.Struct, frozen=True):
    """Who uploads: a worker through its connection, or a person of an account."""

    account_id: str
    worker_id: str | None = None
    session_id: str = ""


class ArtifactService:
    """Everything about bytes that travel."""

    def __init__(self, db: Database, ledger: Ledger, data: Path) -> None:
        self._db = db
        self._ledger = ledger
        self._writing: set[str] = set()
        self.files = ArtifactFiles(data)

    # -- in -----------------------------------------------------------------------------------------------------------

    async def announce(self, caller: Caller, attempt_id: str, body: ArtifactRequest) -> ArtifactAnswer:
        """Register an artifact of an attempt (W6)."""

        def write(conn: Connection) -> ArtifactAnswer:
            self._check_live(conn, caller)
            held = self._ledger.fence(conn, attempt_id, caller.worker_id, body.epoch)
            new = NewArtifact(
                account_id=held.job.account_id,
                name=body.name,
                kind=body.kind,
                sha256=body.sha256,
                size=body.size,
                step=body.step,
                job_id=held.job.id,
                attempt_id=attempt_id,
                ordinal=held.attempt.ordinal,
            )
            return self._register(conn, new, caller.worker_id)

        return await self._started(await self._db.write(write))

    async def announce_input(self, account_id: str, body: BlobRequest) -> ArtifactAnswer:
        """Register an input that a person brings (POST /v1/blobs)."""
        new = NewArtifact(account_id=account_id, name=body.name, kind="input", sha256=body.sha256, size=body.size)
        return await self._started(await self._db.write(lambda conn: self._register(conn, new, None)))

    async def find(self, uploader: Uploader, upload_id: str) -> Upload:
        """Return an upload as it stands (HEAD)."""
        return await self._db.read(lambda conn: self._upload(conn, uploader, upload_id))

    async def write_chunk(self, uploader: Uploader, upload_id: str, offset: int, chunk: bytes, digest: bytes) -> int:
        """Store one chunk and return the new offset (PATCH)."""
        if (await asyncio.to_thread(hashlib.sha256, chunk)).digest() != digest:
            raise problem("digest-mismatch", "the chunk does not have its Content-Digest; send it again")
        async with self._alone(upload_id):
            upload = await self._db.read(lambda conn: self._writable(conn, uploader, upload_id))
            if upload.done or offset != upload.offset:
                detail = f"the upload stands at {upload.offset}, the chunk begins at {offset}"
                raise problem("mismatching-offset", detail)
            if offset + len(chunk) > upload.size:
                raise problem("too-large", f"the upload was announced with {upload.size} bytes")
            await asyncio.to_thread(self.files.write_chunk, upload_id, offset, chunk)
            return await self._db.write(lambda conn: self._move(conn, uploader, upload, offset + len(chunk)))

    async def finish(self, uploader: Uploader, upload_id: str, sha256: str, size: int) -> None:
        """Hash the upload and make its artifact visible; the same call again changes nothing (W9)."""
        async with self._alone(upload_id):
            upload = await self._db.read(lambda conn: self._writable(conn, uploader, upload_id))
            if (upload.sha256, upload.size) != (sha256, size):
                raise problem("invalid-request", "sha256 and size are not those the upload was announced with")
            if upload.done:
                return
            if upload.offset != upload.size:
                raise problem("mismatching-offset", f"the upload stands at {upload.offset} of {upload.size} bytes")
            try:
                good = await asyncio.to_thread(self.files.finish, upload_id, sha256, size)
            except Interrupted as error:
                detail = "the coordinator is stopping; finish the upload when it is back"
                raise problem("draining", detail, retry_after_s=self._ledger.settings.stop_s) from error
            await self._db.write(lambda conn: self._finished(conn, uploader, upload, good))
        if not good:
            raise problem("digest-mismatch", "the bytes do not have the sha256 announced; upload them again from 0")

    # -- out ----------------------------------------------------------------------------------------------------------

    async def input_of(self, caller: Caller, attempt_id: str, sha256: str) -> tuple[Path, int]:
        """Return the file of an input or resume point of a live attempt (W10)."""

        def read(conn: Connection) -> int:
            held = self._check_lease(conn, caller, attempt_id)
            files = {file.sha256: file.size for file in held.job.wanted_files()}
            point = held.job.resume_point()
            if point is not None:
                files[point.sha256] = point.size
            if sha256 not in files:
                raise problem("not-found", f"the job has no input {sha256}")
            return files[sha256]

        size = await self._db.read(read)
        return self._present(sha256), size

    async def send_input(
        self, caller: Caller, attempt_id: str, path: Path, start: int, end: int
    ) -> AsyncIterator[bytes]:
        """Yield a file's bytes from ``start`` to ``end``; the lease is checked again every 8 MiB."""
        sent = 0
        async for piece in pieces(path, start, end):
            if sent >= RECHECK_BYTES:
                await self._db.read(lambda conn: self._check_lease(conn, caller, attempt_id))
                sent = 0
            sent += len(piece)
            yield piece

    async def artifact_of(self, account_id: str, artifact_id: str) -> tuple[Artifact, Path]:
        """Return an artifact of an account and its file."""
        artifact = await self._db.read(lambda conn: rows.find_artifact(conn, account_id, artifact_id))
        if artifact is None:
            raise problem("not-found", f"no artifact {artifact_id}")
        if artifact.state != "ready":
            raise problem("wrong-state", f"{artifact.name} is still being uploaded")
        return artifact, self._present(artifact.sha256)

    # -- housekeeping -------------------------------------------------------------------------------------------------

    async def collect(self) -> None:
        """Drop uploads that came to nothing and bytes that nothing refers to."""
        settings, now = self._ledger.settings, self._ledger.clock.now()
        unused_since = now - settings.superseded_keep_s

        def forget(conn: Connection) -> None:
            rows.forget_uploads(conn, now - settings.upload_keep_s)
            rows.forget_superseded(conn, unused_since)
            rows.forget_blobs(conn, unused_since)

        await self._db.write(forget)
        growing, held = await self._db.read(lambda conn: (rows.growing_uploads(conn), rows.held_contents(conn)))
        await asyncio.to_thread(self._sweep, growing, held)

    def _sweep(self, growing: set[str], held: set[str]) -> None:
        for upload_id in self.files.uploads():
            if upload_id not in growing and upload_id not in self._writing:
                self.files.drop_upload(upload_id)
        # A file that was put in its place a moment ago may not have its row yet.
        for path in self.files.settled_blobs(self._ledger.settings.upload_keep_s):
            if path.name not in held:
                self.files.drop_blob(path.name)

    # -- parts --------------------------------------------------------------------------------------------------------

    def _register(self, conn: Connection, new: NewArtifact, worker_id: str | None) -> ArtifactAnswer:
        now = self._ledger.clock.now()
        artifact = rows.find_announced(conn, new)
        here = rows.holds_blob(conn, new.account_id, new.sha256, new.size) and self.files.has(new.sha256)
        if artifact is None:
            if not here:
                self._check_room(conn, new)
            artifact = rows.add_artifact(conn, new, "ready" if here else "uploading", now)
            self._tell(conn, artifact)
        if here:
            rows.touch_blob(conn, new.account_id, new.sha256, now)
            rows.mark_ready(conn, artifact.id)
            return ArtifactAnswer(artifact_id=artifact.id, exists=True)
        upload = rows.open_upload(conn, artifact, worker_id, now)
        ticket = UploadTicket(id=upload.id, offset=upload.offset, chunk=self._ledger.settings.chunk_bytes)
        return ArtifactAnswer(artifact_id=artifact.id, upload=ticket)

    async def _started(self, answer: ArtifactAnswer) -> ArtifactAnswer:
        if answer.upload is not None:
            await asyncio.to_thread(self.files.start_upload, answer.upload.id)
        return answer

    def _check_room(self, conn: Connection, new: NewArtifact) -> None:
        quota = self._ledger.settings.account_quota_bytes
        if rows.held_bytes(conn, new.account_id) + new.size > quota:
            raise problem("too-large", f"{new.name} would exceed the account's {quota >> 30} GiB")
        if not self.files.has_room(new.size):
            raise problem("disk-full", f"the coordinator's disk has no room for {new.name}", retry_after_s=30.0)

    def _upload(self, conn: Connection, uploader: Uploader, upload_id: str) -> Upload:
        if uploader.worker_id is not None:
            assert_worker_live(conn, uploader.worker_id, uploader.session_id)
        upload = rows.find_upload(conn, upload_id, uploader.account_id, uploader.worker_id)
        if upload is None:
            raise problem("not-found", f"no upload {upload_id}")
        return upload

    def _writable(self, conn: Connection, uploader: Uploader, upload_id: str) -> Upload:
        """Return an upload as :meth:`_fence` would, from a reader: it saves the work for bytes nobody may add."""
        upload = self._upload(conn, uploader, upload_id)
        held = self._held(conn, upload)
        if held is not None and not may_write(held, held.attempt.epoch):
            raise superseded(held)
        return upload

    def _fence(self, conn: Connection, uploader: Uploader, upload: Upload) -> None:
        """Raise unless these bytes may be added now: those of an attempt only while it may write at all."""
        self._upload(conn, uploader, upload.id)
        held = self._held(conn, upload)
        if held is not None:
            self._ledger.fence(conn, held.attempt.id, held.attempt.worker_id, held.attempt.epoch)

    def _held(self, conn: Connection, upload: Upload) -> Held | None:
        """Return the attempt that an upload belongs to; None for what a person brings."""
        artifact = rows.find_artifact(conn, upload.account_id, upload.artifact_id)
        if artifact is None or artifact.attempt_id is None or upload.worker_id is None:
            return None
        return find_held(conn, artifact.attempt_id, upload.worker_id)

    def _move(self, conn: Connection, uploader: Uploader, upload: Upload, offset: int) -> int:
        self._fence(conn, uploader, upload)
        if not rows.move_offset(conn, upload, offset, self._ledger.clock.now()):
            raise problem("mismatching-offset", "another request moved the upload; ask where it stands")
        return offset

    def _finished(self, conn: Connection, uploader: Uploader, upload: Upload, good: bool) -> None:
        self._fence(conn, uploader, upload)
        now = self._ledger.clock.now()
        if not good:
            rows.move_offset(conn, upload, 0, now)
            return
        rows.complete_upload(conn, upload, now)
        artifact = rows.find_artifact(conn, upload.account_id, upload.artifact_id)
        if artifact is not None:
            self._tell(conn, artifact)

    def _tell(self, conn: Connection, artifact: Artifact) -> None:
        if artifact.job_id is not None:
            detail: dict[str, object] = {"kind": artifact.kind, "name": artifact.name}
            self._ledger.feed.record(conn, artifact.account_id, "artifact", artifact.job_id, detail)

    def _check_live(self, conn: Connection, caller: Caller) -> None:
        assert_worker_live(conn, caller.worker_id, caller.session_id)

    def _check_lease(self, conn: Connection, caller: Caller, attempt_id: str) -> Held:
        self._check_live(conn, caller)
        held = find_held(conn, attempt_id, caller.worker_id)
        if held is None:
            raise problem("not-found", f"this worker has no attempt {attempt_id}")
        # A lost attempt comes back with its next heartbeat: what it fetches meanwhile must not fail its job for good.
        if not may_write(held, held.attempt.epoch):
            raise problem("no-lease", f"the attempt is {held.attempt.state}")
        return held

    @asynccontextmanager
    async def _alone(self, upload_id: str) -> AsyncGenerator[None]:
        """Let one request at a time write an upload."""
        if upload_id in self._writing:
            raise problem("upload-locked", "another request writes this upload", retry_after_s=1.0)
        self._writing.add(upload_id)
        try:
            yield
        finally:
            self._writing.discard(upload_id)

    def _present(self, sha256: str) -> Path:
        path = self.files.path_of(sha256)
        if not path.is_file():
            raise problem("not-found", f"the bytes of {sha256} are gone; they expired or the data folder was changed")
        return path


async def pieces(path: Path, start: int, end: int) -> AsyncIterator[bytes]:
    """Yield the bytes of a file from ``start`` to ``end``."""
    while start < end:
        piece = await asyncio.to_thread(read_range, path, start, min(READ_BYTES, end - start))
        if not piece:
            return
        start += len(piece)
        yield piece
