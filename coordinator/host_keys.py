"""What a host does to the coordinator's identity while it is stopped: another signing key, or telling it of a restore.

Workers believe only the key they pinned. So a new one is named first, signed by the present one; once the workers have
heard of it, it takes over.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, select, update

from coordinator.accounts.audit import COORDINATOR, record
from coordinator.accounts.keys import KEY_NAME, NEXT_KEY_NAME, CoordinatorKeys, make_key
from coordinator.accounts.presence import Contact
from coordinator.clock import SystemClock
from coordinator.errors import HostError
from coordinator.storage.data_folder import DataFolder, FolderInUse
from coordinator.storage.database import AnyRow, Database
from coordinator.storage.generation import declare_restored
from coordinator.storage.private_files import sync_folder
from coordinator.storage.schema import worker
from worker_core.wire.codec import decode

T = TypeVar("T")
PAST_KEY_NAME = "coordinator-key-past.pem"


class KeyNotChanged(HostError):
    """The key stays as it is; the text says why and what to do."""


def prepare_next_key(data: Path) -> str:
    """Make the next key, for workers to pin beside the present one; returns what to tell the host."""

    def act(folder: Path, conn: Connection) -> str:
        if (folder / NEXT_KEY_NAME).exists():
            raise KeyNotChanged("a next key waits already; when the workers have heard of it: key switch")
        make_key(folder / NEXT_KEY_NAME)
        conn.execute(update(worker).values(rev=worker.c.rev + 1))
        _tell(conn, "a next key was made")
        return "the next key is made; start the coordinator, let every worker connect, then: key switch"

    return _while_stopped(data, act)


def switch_key(data: Path, *, force: bool = False) -> str:
    """Sign with the next key from now on. Workers that have not heard of it would believe nothing any more."""

    def act(folder: Path, conn: Connection) -> str:
        if not (folder / NEXT_KEY_NAME).exists():
            raise KeyNotChanged("there is no next key; make one with: key next")
        CoordinatorKeys.load(folder)  # what cannot be read must not take over
        living = conn.execute(select(worker).where(worker.c.revoked_at.is_(None))).all()
        unaware = [row.name for row in living if not _has_heard(row)]
        if unaware and not force:
            raise KeyNotChanged(
                f"these workers have not heard of the next key: {', '.join(unaware)}. Let them connect first; "
                "with --force they must pair again"
            )
        (folder / KEY_NAME).replace(folder / PAST_KEY_NAME)
        (folder / NEXT_KEY_NAME).replace(folder / KEY_NAME)
        sync_folder(folder)
        _tell(conn, "the coordinator signs with its next key")
        return f"the coordinator signs with its next key; the past one is kept in {PAST_KEY_NAME}"

    return _while_stopped(data, act)


def tell_restored(data: Path) -> str:
    """Treat the next start as one after a restore: for a whole data folder that was brought back from a copy."""
    folder = _hold(data)
    try:
        declare_restored(folder.path)
    finally:
        folder.release()
    return "at its next start the coordinator asks a person to confirm all workers"


def _has_heard(row: AnyRow) -> bool:
    return row.contact is not None and decode(row.contact, Contact).observed.rev == row.rev


def _tell(conn: Connection, detail: str) -> None:
    record(conn, None, SystemClock().now(), COORDINATOR, "key changed", "", "the coordinator", detail)


def _while_stopped(data: Path, act: Callable[[Path, Connection], T]) -> T:
    folder = _hold(data)
    try:
        database = Database.open(folder.database)
        try:
            return database.write_sync(lambda conn: act(folder.path, conn))
        finally:
            database.close()
    finally:
        folder.release()


def _hold(data: Path) -> DataFolder:
    try:
        return DataFolder.hold(data)
    except FolderInUse as busy:
        raise KeyNotChanged(f"{busy}: this works only while the coordinator is stopped") from busy
