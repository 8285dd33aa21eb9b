"""Copies of attempts that lost their job to another: kept for a day in case a person wants to look, then removed.

Which ones stands in the journal. There are never many of them and they never hold much disk: the oldest go first.
"""

import asyncio
import logging
from weakref import WeakKeyDictionary

from worker_core.jobs.folders import folder_size
from worker_core.jobs.workspace import workspace_path
from worker_core.journal.journal import Journal
from worker_core.machine.clocks import Clock
from worker_core.machine.paths import Paths
from worker_core.wire.codec import BadMessage, decode, encode

log = logging.getLogger(__name__)

KEEP_S = 24 * 3600.0
KEEP_COPIES = 4
_FACT = "kept-workspaces"
_Kept = dict[str, float]
"""Attempt id to the unix seconds at which it was put aside, oldest first."""


_changes: "WeakKeyDictionary[Journal, asyncio.Lock]" = WeakKeyDictionary()


async def keep(journal: Journal, clock: Clock, attempt_id: str) -> None:
    """Put the workspace of an attempt aside instead of removing it."""
    async with _one_change(journal):
        kept = {**_read(journal), attempt_id: clock.wall()}
        await _write(journal, dict(list(kept.items())[-KEEP_COPIES:]))
    log.info("the workspace of %s, whose job another attempt has, stays for a day", attempt_id)


async def still_kept(paths: Paths, journal: Journal, clock: Clock, limit_bytes: int) -> set[str]:
    """Return the attempts whose workspaces stay; forget those that are too old, gone, or too big together."""
    async with _one_change(journal):
        return await _sorted_out(paths, journal, clock, limit_bytes)


async def _sorted_out(paths: Paths, journal: Journal, clock: Clock, limit_bytes: int) -> set[str]:
    kept, now = _read(journal), clock.wall()
    # A moment in the future means that somebody set the date back: it counts from now on.
    young = {one: min(since, now) for one, since in kept.items() if now - since < KEEP_S}
    stay: _Kept = {}
    room = limit_bytes
    for attempt_id in reversed(young):
        workspace = workspace_path(paths, attempt_id)
        size = await asyncio.to_thread(folder_size, workspace) if workspace.exists() else None
        if size is None or size > room:
            continue
        room -= size
        stay[attempt_id] = young[attempt_id]
    ordered = dict(reversed(stay.items()))
    if ordered != kept:
        await _write(journal, ordered)
    return set(ordered)


def _one_change(journal: Journal) -> asyncio.Lock:
    """Return what keeps one reading and writing of the list from coming between those of another."""
    return _changes.setdefault(journal, asyncio.Lock())


def _read(journal: Journal) -> _Kept:
    text = journal.fact(_FACT)
    if text is None:
        return {}
    try:
        return decode(text, _Kept)
    except BadMessage:
        log.warning("the list of kept workspaces cannot be read; they are removed")
        return {}


async def _write(journal: Journal, kept: _Kept) -> None:
    await journal.set_fact(_FACT, encode(kept).decode() if kept else None)
