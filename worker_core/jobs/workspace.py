"""The folder of one attempt: made before its job starts, removed when the coordinator has recorded it."""

import asyncio
import errno
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from weakref import WeakValueDictionary

from worker_core.jobs.blobs import (
    BlobDamaged,
    blob_path,
    finish_partial,
    holds_blob,
    link_or_copy,
    partial_path,
)
from worker_core.jobs.bundle import MAX_TOTAL_BYTES, BadBundle, unpack_bundle
from worker_core.jobs.folders import open_up, remove_folder
from worker_core.journal.records import NewAttempt
from worker_core.machine.atomic_files import private_folder, write_file
from worker_core.machine.paths import Paths
from worker_core.wire.codec import encode
from worker_core.wire.vocabulary import FailureClass

log = logging.getLogger(__name__)

Fetch = Callable[[str, int, Path], Awaitable[None]]
"""``fetch(sha256, size, destination)`` appends what is missing to the file; raises :class:`FetchFailed` for good."""

CODE_INPUT = "code"
_fetching: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
"""One lock for each file that is being fetched."""
_INPUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_REMOVED = ".removed"


class FetchFailed(Exception):
    """An input cannot be had from the coordinator; ``passing`` when it may be there for another attempt."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class NotPrepared(Exception):
    """The workspace could not be made: ``failure`` is the class, the text says why."""

    def __init__(self, failure: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure: FailureClass = failure


def workspace_path(paths: Paths, attempt_id: str) -> Path:
    """Return the workspace of an attempt."""
    return paths.workspaces / attempt_id


async def make_workspace(paths: Paths, attempt: NewAttempt, fetch: Fetch) -> Path:
    """Make the workspace with all that the job needs; raises :class:`NotPrepared`."""
    accepted = attempt.accepted
    for one in accepted.inputs:
        if not _INPUT_NAME.fullmatch(one.name):
            raise NotPrepared("bad-spec", f"The input name {one.name!r} is not allowed; use letters, digits and . _ -")
    try:
        for one in accepted.inputs:
            await _bring(paths.blobs, one.sha256, one.size, fetch)
        if accepted.resume_from:
            await _bring(paths.blobs, accepted.resume_from.sha256, accepted.resume_from.size, fetch)
        return await asyncio.to_thread(_lay_out, paths, attempt)
    except BadBundle as error:
        raise NotPrepared("bad-spec", f"The job's files cannot be unpacked: {error}.") from error
    except BlobDamaged as error:
        raise NotPrepared("data-missing", f"An input of the job is damaged: {error}.") from error
    except FetchFailed as error:
        failure: FailureClass = "start-failed" if error.passing else "data-missing"
        raise NotPrepared(failure, f"An input of the job cannot be had: {error}") from error
    except OSError as error:
        raise NotPrepared("disk-full" if is_disk_full(error) else "start-failed", f"{error}.") from error
    except Exception as error:
        # A fault of ours; it ends this attempt, but must not hold its slot.
        log.exception("the workspace of %s cannot be made", attempt.attempt_id)
        raise NotPrepared("start-failed", f"The workspace cannot be made: {error!r}.") from error


async def remove_workspace(paths: Paths, attempt_id: str) -> bool:
    """Remove a workspace and tell whether it is gone.

    What resists waits for :func:`sweep_workspaces`, aside where that is possible; the log says why.
    """
    return await asyncio.to_thread(_put_aside_and_remove, paths.workspaces, workspace_path(paths, attempt_id))


async def sweep_workspaces(paths: Paths, keep: Collection[str]) -> list[str]:
    """Remove every workspace but those of ``keep``; return the names of those that still resist."""
    return await asyncio.to_thread(_sweep, paths.workspaces, frozenset(keep))


def is_disk_full(error: OSError) -> bool:
    """Tell whether an error means that the disk, or the person's share of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


async def _bring(blobs: Path, sha256: str, size: int, fetch: Fetch) -> None:
    part = partial_path(blobs, sha256)
    private_folder(part.parent)
    # A stopped attempt may still be fetching the same file: two that append to one part would spoil it.
    async with _fetching.setdefault(part, asyncio.Lock()):
        if await asyncio.to_thread(holds_blob, blobs, sha256, size):
            return
        for last_try in (False, True):
            await fetch(sha256, size, part)
            try:
                await asyncio.to_thread(finish_partial, blobs, sha256, size)
            except BlobDamaged:
                # A part that an earlier fetch left may have been wrong from its start: once more from nothing.
                if last_try:
                    raise
            else:
                return


def _lay_out(paths: Paths, attempt: NewAttempt) -> Path:
    accepted = attempt.accepted
    workspace = workspace_path(paths, attempt.attempt_id)
    private_folder(paths.workspaces)
    if workspace.exists():
        _put_aside_and_remove(paths.workspaces, workspace)
    private_folder(workspace)
    for folder in ("inputs", "checkpoints", "results", "tmp"):
        private_folder(workspace / folder)
    write_file(workspace / "spec.json", accepted.spec.encode(), private=True)
    job = {"job_id": attempt.job_id, "attempt_id": attempt.attempt_id, "attempt": attempt.ordinal}
    write_file(workspace / "job.json", encode(job), private=True)
    for one in accepted.inputs:
        blob = blob_path(paths.blobs, one.sha256)
        if one.name == CODE_INPUT:
            room = min(MAX_TOTAL_BYTES, accepted.limits.max_disk_bytes)
            unpack_bundle(blob, workspace / "code", max_bytes=room)
        else:
            link_or_copy(blob, workspace / "inputs" / one.name)
    if point := accepted.resume_from:
        private_folder(workspace / "resume")
        link_or_copy(blob_path(paths.blobs, point.sha256), workspace / "resume" / "checkpoint")
        resume = {"step": point.step, "sha256": point.sha256}
        write_file(workspace / "resume" / "resume.json", encode(resume), private=True)
    return workspace


def _put_aside_and_remove(workspaces: Path, workspace: Path) -> bool:
    if not workspace.exists():
        return True
    aside = private_folder(workspaces / _REMOVED) / f"{workspace.name}-{time.time_ns()}"
    try:
        open_up(workspace)
        workspace.rename(aside)
    except OSError as error:
        _tell_stuck(workspace, error)  # Windows: a scanner holds a file
        return False
    return _remove_tree(aside)


def _sweep(workspaces: Path, keep: frozenset[str]) -> list[str]:
    if not workspaces.exists():
        return []
    for workspace in workspaces.iterdir():
        if workspace.name != _REMOVED and workspace.name not in keep:
            _put_aside_and_remove(workspaces, workspace)
    aside = workspaces / _REMOVED
    left = [path.name for path in aside.iterdir() if not _remove_tree(path)] if aside.exists() else []
    stuck = (path.name for path in workspaces.iterdir() if path.name != _REMOVED and path.name not in keep)
    return [*left, *stuck]


def _remove_tree(folder: Path) -> bool:
    """Remove a folder; what cannot be removed is told with the reason and left for the next sweep."""
    reason = remove_folder(folder)
    if reason is not None:
        _tell_stuck(folder, reason)
    return reason is None


def _tell_stuck(folder: Path, error: OSError) -> None:
    log.warning("the folder %s of an ended job cannot be removed yet: %s; it is tried again", folder.name, error)
