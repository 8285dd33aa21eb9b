"""Takes the files that a job announces out of its workspace and among the blobs, before the job hears of it."""

import asyncio
import os
from pathlib import Path, PurePosixPath

from worker_core.jobs.blobs import BlobDamaged, add_blob, blob_path
from worker_core.journal.journal import Journal
from worker_core.journal.records import CheckpointRow, UploadRow
from worker_core.machine.paths import Paths
from worker_core.wire.frames import ArtifactReady


class BadArtifact(Exception):
    """A job announced a file that is not there, not inside its workspace, or not what it said."""


async def take_artifact(
    paths: Paths, journal: Journal, attempt_id: str, workspace: Path, ready: ArtifactReady, now: float
) -> None:
    """Keep the file and the wish to upload it; raises :class:`BadArtifact`, OSError or JournalError."""
    source = _inside(workspace, ready.path)
    if not source.is_file():
        raise BadArtifact(f"the file {ready.path} is not there, or is no plain file")
    try:
        await asyncio.to_thread(add_blob, paths.blobs, source, ready.sha256, ready.size)
    except BlobDamaged as error:
        raise BadArtifact(f"the file {ready.path}: {error}") from error
    except FileNotFoundError as error:
        raise BadArtifact(f"the file {ready.path} went away") from error
    await _record(paths, journal, attempt_id, ready, now)


async def _record(paths: Paths, journal: Journal, attempt_id: str, ready: ArtifactReady, now: float) -> None:
    is_checkpoint = ready.kind == "checkpoint"
    upload = UploadRow(
        attempt_id=attempt_id,
        sha256=ready.sha256,
        name=ready.name,
        kind="checkpoint" if is_checkpoint else "result",
        size=ready.size,
        step=ready.step,
    )
    if is_checkpoint:
        row = CheckpointRow(sha256=ready.sha256, size=ready.size, step=ready.step or 0, saved=now)
        before = await journal.attempt(attempt_id)
        await journal.set_checkpoint(attempt_id, row, upload)
        if before and before.checkpoint:
            await _remove_superseded(paths, journal, before.checkpoint.sha256)
    else:
        await journal.add_upload(upload)


async def _remove_superseded(paths: Paths, journal: Journal, sha256: str) -> None:
    """Remove an older checkpoint that nobody waits for, so that checkpoints do not pile up between two sweeps."""
    held = await journal.attempts()
    needed = {row.checkpoint.sha256 for row in held if row.checkpoint} | {one.sha256 for one in await journal.uploads()}
    if sha256 not in needed:
        await asyncio.to_thread(blob_path(paths.blobs, sha256).unlink, missing_ok=True)


def _inside(workspace: Path, named: str) -> Path:
    """Return the file a job named, which must lie in its workspace without any link on the way."""
    parts = PurePosixPath(named).parts
    if not parts or ".." in parts or PurePosixPath(named).is_absolute():
        raise BadArtifact(f"the path {named!r} leaves the workspace")
    # A backslash or a colon is more than a letter on Windows: it would lead to another folder or drive.
    if any(letter in named for letter in "\\:\0"):
        raise BadArtifact(f"the path {named!r} is not one that every system can have")
    path = workspace.joinpath(*parts)
    if os.path.realpath(path) != os.path.join(os.path.realpath(workspace), *parts):
        raise BadArtifact(f"the path {named!r} goes through a link")
    return path
