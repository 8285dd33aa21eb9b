"""Forgetting a coordinator: the key, the journal, the workspaces. What is cut short goes on at the next start."""

import asyncio
import logging

import msgspec

from worker_core.core.enrollment import Enrollment, Farewell, write_farewell
from worker_core.jobs.blobs import collect_blobs
from worker_core.jobs.recovery import recover_attempt
from worker_core.jobs.workspace import sweep_workspaces
from worker_core.journal.journal import Journal
from worker_core.machine.keystore import StoreKind, Unavailable, open_store
from worker_core.machine.paths import Paths
from worker_core.wire.signed import Revocation

log = logging.getLogger(__name__)


def farewell_to(enrollment: Enrollment, revocation: Revocation | None) -> Farewell | None:
    """Return what is left to say; nothing where the person here ended the pairing."""
    if revocation is None:
        return None
    return Farewell(
        coordinator=enrollment.coordinator,
        worker_name=enrollment.worker_name,
        by=revocation.by,
        revoked_at=revocation.revoked_at,
        reason=revocation.reason,
    )


async def remove_key(paths: Paths, kind: StoreKind) -> str:
    """Delete the worker's key; returns why it is still there and what to do, or nothing."""
    deleted = await asyncio.to_thread(open_store(paths, kind).delete)
    if not isinstance(deleted, Unavailable):
        return ""
    left = f"Its key could not be removed. {deleted.detail}"
    log.warning("%s", left)
    return left


async def erase(paths: Paths, journal: Journal, farewell: Farewell | None, key_left: str = "") -> Farewell | None:
    """Remove everything but the key and the workstation's mode; returns the farewell as it is kept."""
    await journal.wipe()
    if farewell is not None:
        farewell = msgspec.structs.replace(farewell, key_left=key_left)
        await write_farewell(journal, farewell)
    await _remove_files(paths, journal)
    return farewell


async def finish_erasing(
    paths: Paths, journal: Journal, cut_short: Enrollment | None, farewell: Farewell | None
) -> Farewell | None:
    """Go on with what an earlier run of this core could not finish; without such a thing, only tidy up."""
    rows = await journal.attempts()
    if cut_short is None and not rows:
        await _remove_files(paths, journal)
        return farewell
    key_left = await remove_key(paths, cut_short.credential_store) if cut_short is not None else ""
    for row in rows:
        if row.end is None:
            await recover_attempt(row, paths=paths, journal=journal, grace_s=0)
    return await erase(paths, journal, farewell, key_left)


async def _remove_files(paths: Paths, journal: Journal) -> None:
    await sweep_workspaces(paths, set[str]())
    await collect_blobs(paths.blobs, journal, 0)
