"""The control document: what the console wants of a worker, sent whenever the worker has observed another."""

from sqlalchemy import Connection, select

from coordinator.accounts.authorization import authorization_of, held_back
from coordinator.accounts.keys import CoordinatorKeys
from coordinator.storage.database import AnyRow
from coordinator.storage.schema import worker
from worker_core.wire.session import Control, Observed


def control_of(row: AnyRow, now: float, generation: int, keys: CoordinatorKeys) -> Control:
    """Return the control document of a worker."""
    return Control(
        gen=generation,
        rev=row.rev,
        console_mode=row.console_mode,
        authorization=authorization_of(row, now),
        by=row.mode_by,
        reason=row.mode_reason,
        held=held_back(row),
        rotate_key=row.rekey_at is not None,
        next_coordinator_key=keys.announce_next(row.id, row.thumbprint, generation),
    )


def control_for(
    conn: Connection, worker_id: str, observed: Observed, *, now: float, gen: int, keys: CoordinatorKeys
) -> Control | None:
    """Return the control document when the worker has observed another (an older or, after a restore, a newer)."""
    row = conn.execute(select(worker).where(worker.c.id == worker_id)).one()
    if observed.gen == gen and observed.rev == row.rev:
        return None
    return control_of(row, now, gen, keys)
