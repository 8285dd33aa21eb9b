"""The coordinator's generation, in the database and beside it, so that an older database is noticed at the start.

Both hold a mark that grows once a minute and at each start and stop, in the database first. A database whose mark or
generation is behind the file's was restored from a copy; one without its file was moved here alone, which is the same.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, insert, select, update

from coordinator.errors import HostError
from coordinator.storage.database import Database
from coordinator.storage.private_files import write_private
from coordinator.storage.schema import coordinator_row
from worker_core.wire.codec import BadMessage, Count, Message, decode, encode

FILE_NAME = "generation.json"
FAR_AHEAD = 1_000_000
"""More marks than any database is ahead of its side file."""


class UnusableGeneration(HostError):
    """The side file is damaged; the text says what to do."""


class Stamp(Message):
    """What database and side file both hold."""

    gen: Count
    mark: Count


@dataclass(frozen=True)
class Settled:
    """The stamp to go on with, and whether the database turned out to be an older one."""

    stamp: Stamp
    restored: bool


def settle(database: Stamp | None, beside: Stamp | None) -> Settled:
    """Compare the database's stamp with the side file's."""
    if database is None:
        newest = beside or Stamp(gen=0, mark=0)
        return Settled(Stamp(gen=newest.gen + 1, mark=newest.mark + 1), restored=False)
    if beside is None:
        return Settled(Stamp(gen=database.gen + 1, mark=database.mark + 1), restored=True)
    mark = max(database.mark, beside.mark) + 1
    if database.mark < beside.mark or database.gen < beside.gen:
        return Settled(Stamp(gen=max(database.gen, beside.gen) + 1, mark=mark), restored=True)
    return Settled(Stamp(gen=database.gen, mark=mark), restored=False)


class Generation:
    """The running coordinator's generation."""

    def __init__(self, db: Database, path: Path, settled: Settled) -> None:
        self._db = db
        self._path = path
        self._stamp = settled.stamp
        self.number: int = settled.stamp.gen
        self.restored = settled.restored

    @classmethod
    def open(cls, db: Database, data: Path, now: float) -> "Generation":
        """Settle the generation at the start; raises :class:`UnusableGeneration`."""
        path = data / FILE_NAME
        settled = settle(db.write_sync(_read), _read_beside(path))
        generation = cls(db, path, settled)
        if not settled.restored:
            # A restored one is written down only with all that it asks for, so that no crash can hide the restore.
            db.write_sync(lambda conn: _write(conn, settled.stamp, now))
            write_private(path, encode(settled.stamp))
        return generation

    def settle_in(self, conn: Connection) -> None:
        """Write the database's half, in the transaction of what a restore asks for."""
        _write(conn, self._stamp, 0.0)

    async def settle_beside(self) -> None:
        """Write the side file: what a restore asks for is in the database."""
        await asyncio.to_thread(write_private, self._path, encode(self._stamp))

    async def advance(self) -> None:
        """Let the mark grow, in the database first."""
        stamp = Stamp(gen=self._stamp.gen, mark=self._stamp.mark + 1)
        await self._db.write(lambda conn: _write(conn, stamp, 0.0))
        self._stamp = stamp
        await self.settle_beside()


def declare_restored(data: Path) -> None:
    """Put the side file ahead of the database, as if that had been restored. Raises :class:`UnusableGeneration`."""
    beside = _read_beside(data / FILE_NAME) or Stamp(gen=1, mark=0)
    write_private(data / FILE_NAME, encode(Stamp(gen=beside.gen, mark=beside.mark + FAR_AHEAD)))


def _read(conn: Connection) -> Stamp | None:
    row = conn.execute(select(coordinator_row)).first()
    return None if row is None else Stamp(gen=row.generation, mark=row.mark)


def _write(conn: Connection, stamp: Stamp, now: float) -> None:
    values = {"generation": stamp.gen, "mark": stamp.mark}
    if conn.execute(update(coordinator_row).values(**values)).rowcount == 0:
        conn.execute(insert(coordinator_row).values(id=1, created_at=now, **values))


def _read_beside(path: Path) -> Stamp | None:
    try:
        return decode(path.read_bytes(), Stamp)
    except FileNotFoundError:
        return None
    except (OSError, BadMessage) as error:
        raise UnusableGeneration(
            f"cannot read {path}: {error}. If it is damaged, remove it: the coordinator then asks a person to "
            "confirm all workers, as after a restore."
        ) from error
