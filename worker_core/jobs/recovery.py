"""Winds up what an earlier core left: its job leaves by itself or is ended, and its last checkpoint counts."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from worker_core.jobs.artifacts import BadArtifact, take_artifact
from worker_core.jobs.folders import open_plain
from worker_core.jobs.process import ProcessIdentity, TreeEnd, end_tree, find_tree
from worker_core.jobs.workspace import workspace_path
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, AttemptRow
from worker_core.machine.paths import Paths
from worker_core.wire.codec import BadMessage, Count, Message, Sha256, decode
from worker_core.wire.events import CheckpointSaved, Gap, Log
from worker_core.wire.frames import LAST_WORD_FILE, ArtifactReady, LastWord

_LOOK_EVERY_S = 0.25
_KILL_LIMIT_S = 20.0
_MAX_NOTE_BYTES = 256 * 1024
T = TypeVar("T")


class LatestCheckpoint(Message):
    """``checkpoints/latest.json``: written by a job after each complete checkpoint file."""

    path: str
    step: Count
    sha256: Sha256
    size: Count


OnLeft = Callable[[str, ProcessIdentity | None, tuple[int, ...]], None]
"""``on_left(attempt_id, first process, pids)`` hears of processes that could not be ended."""


async def recover_attempt(
    row: AttemptRow, *, paths: Paths, journal: Journal, grace_s: float, on_left: OnLeft | None = None
) -> AttemptEnd:
    """Return how an attempt ended whose core went away; on return none of its processes is left, or ``on_left`` knows.

    A job notices that its core is gone when its orders end. It then saves a checkpoint and leaves, for which it has
    ``grace_s``.
    """
    identity = _identity_of(row)
    tree = await _see_it_leave(row, identity, grace_s)
    if tree.left and on_left is not None:
        on_left(row.attempt_id, identity, tree.left)
    if row.end is not None:
        return row.end
    end = await _end_by_own_word(row, paths, journal)
    if end is None:
        await _take_last_checkpoint(row, paths, journal)
        end = AttemptEnd(how="interrupted", forced=tree.killed > 0, note="The worker stopped while this job ran.")
    await journal.set_end(row.attempt_id, end)
    return end


def _identity_of(row: AttemptRow) -> ProcessIdentity | None:
    if row.pid is None or row.pid_started is None:
        return None
    return ProcessIdentity(row.pid, row.pid_started)


async def _see_it_leave(row: AttemptRow, identity: ProcessIdentity | None, grace_s: float) -> TreeEnd:
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline:
        if not await asyncio.to_thread(find_tree, identity, row.attempt_id):
            break
        await asyncio.sleep(_LOOK_EVERY_S)
    return await asyncio.to_thread(end_tree, identity, row.attempt_id, limit_s=_KILL_LIMIT_S)


async def _end_by_own_word(row: AttemptRow, paths: Paths, journal: Journal) -> AttemptEnd | None:
    """Return how the job itself says it ended: as the journal has it, else as it wrote down when no core was there."""
    word = await asyncio.to_thread(_read_note, workspace_path(paths, row.attempt_id) / LAST_WORD_FILE, LastWord)
    done = row.done or (word.done if word is not None else None)
    if done is None or done.outcome not in ("succeeded", "failed"):
        return None
    if word is not None and not await _take_files(row, word, paths, journal):
        return None
    if row.done is None:
        reason = "the worker was away when the job ended; its last points may be missing"
        journal.append(row.attempt_id, Gap(ts=time.time(), reason=reason))
        await journal.set_done(row.attempt_id, done)
    outcome, code = ("succeeded" if done.outcome == "succeeded" else "failed"), (word.exit if word else None)
    return AttemptEnd(how="finished", outcome=outcome, error=done.error, usage=done.usage, exit=code)


async def _take_files(row: AttemptRow, word: LastWord, paths: Paths, journal: Journal) -> bool:
    """Keep the files that no core has acknowledged; False when one is not what the job said of it."""
    workspace = workspace_path(paths, row.attempt_id)
    for ready in word.artifacts:
        try:
            await take_artifact(paths, journal, row.attempt_id, workspace, ready, time.time())
        except (BadArtifact, OSError) as error:
            if word.done.outcome != "succeeded":
                continue  # a failure stays one, with or without its files
            text = f"the job's end does not count: {ready.name} cannot be used: {error}"
            journal.append(row.attempt_id, Log(ts=time.time(), stream="stoker", text=text))
            return False
    return True


async def _take_last_checkpoint(row: AttemptRow, paths: Paths, journal: Journal) -> None:
    """Keep a checkpoint that the job wrote after the core had gone."""
    workspace = workspace_path(paths, row.attempt_id)
    latest = await asyncio.to_thread(_read_note, workspace / "checkpoints" / "latest.json", LatestCheckpoint)
    if latest is None or (row.checkpoint and latest.step <= row.checkpoint.step):
        return
    ready = ArtifactReady(
        name=Path(latest.path).name,
        kind="checkpoint",
        path=latest.path,
        sha256=latest.sha256,
        size=latest.size,
        step=latest.step,
    )
    try:
        await take_artifact(paths, journal, row.attempt_id, workspace, ready, time.time())
    except (BadArtifact, OSError) as error:
        text = f"the last checkpoint (step {latest.step}) cannot be used: {error}"
        journal.append(row.attempt_id, Log(ts=time.time(), stream="stoker", text=text))
        return
    saved = CheckpointSaved(ts=time.time(), step=latest.step, sha256=latest.sha256, size=latest.size)
    journal.append(row.attempt_id, saved)


def _read_note(path: Path, kind: type[T]) -> T | None:
    """Return what a job wrote down in one of its small files; None where there is none that can be read."""
    try:
        with open_plain(path) as file:
            return decode(file.read(_MAX_NOTE_BYTES), kind)
    except (OSError, BadMessage):
        return None
