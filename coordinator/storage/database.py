"""The coordinator's database: one SQLite file, one writer thread with group commit, readers beside it.

Waiting writes share one commit, because the disk's flush is what a write costs. Each write function stands in a
savepoint of its own, so that one that fails takes back only its own effects. An answer may leave only after
:meth:`Database.write` returned.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, Row, create_engine, event
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import QueuePool

from coordinator.errors import HostError
from coordinator.storage import driver
from coordinator.storage.migrate import migrate

T = TypeVar("T")

AnyRow = Row[*tuple[Any, ...]]
"""A row of any query; its columns are attributes."""

MAX_BATCH = 500
READERS = 4
_BUSY_TIMEOUT_S = 5.0
_CALLBACKS = "after_commit"


class UnusableDatabase(HostError):
    """The file is no database of a coordinator, or is damaged."""


class DatabaseClosed(RuntimeError):
    """A read or write came after the database was closed."""


@dataclass
class _Operation:
    run: Callable[[Connection], Any]
    future: "Future[Any]"
    loop: asyncio.AbstractEventLoop | None
    callbacks: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class Database:
    """One open database file. Make it with :meth:`open`, end it with :meth:`close`."""

    def __init__(self, path: Path) -> None:
        self._engine = _engine(path, begin="BEGIN IMMEDIATE", size=1, query_only=False)
        self._readers = _engine(path, begin="BEGIN", size=READERS, query_only=True)
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="read")
        self._operations: queue.SimpleQueue[_Operation | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="write", daemon=True)
        self._gate = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> "Database":
        """Open the file, make it private, bring its tables up to date and start the writer."""
        path.touch(mode=0o600)
        database = cls(path)
        try:
            with database._engine.connect() as connection:
                migrate(connection)
        except DatabaseError as error:
            cure = "Free the disk if it is full, bring back a copy, or move the file away to begin anew"
            raise UnusableDatabase(f"{path} cannot be used: {error.orig}. {cure}") from error
        database._writer.start()
        return database

    async def write(self, run: Callable[[Connection], T]) -> T:
        """Run ``run`` in a write transaction and return its result once that is on the disk."""
        return await asyncio.wrap_future(self._submit(run, asyncio.get_running_loop()))

    def write_sync(self, run: Callable[[Connection], T]) -> T:
        """Like :meth:`write`, for commands without an event loop."""
        return self._submit(run, None).result()

    async def read(self, run: Callable[[Connection], T]) -> T:
        """Run ``run`` on a reader; it sees one moment of the database and cannot change it."""
        return await asyncio.wrap_future(self._submit_read(run))

    def read_sync(self, run: Callable[[Connection], T]) -> T:
        """Like :meth:`read`, for commands without an event loop."""
        return self._submit_read(run).result()

    def close(self) -> None:
        """Finish the waiting writes and close the file."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._operations.put(None)
        self._writer.join()
        self._pool.shutdown()
        # Readers go first: the last connection to close checkpoints, and that must be the writer.
        self._readers.dispose()
        self._engine.dispose()

    def _submit(self, run: Callable[[Connection], T], loop: asyncio.AbstractEventLoop | None) -> "Future[T]":
        future: Future[T] = Future()
        with self._gate:
            if self._closed:
                raise DatabaseClosed("the coordinator's database is closed")
            self._operations.put(_Operation(run, future, loop))
        return future

    def _submit_read(self, run: Callable[[Connection], T]) -> "Future[T]":
        if not driver.SAFE_WAL:
            return self._submit(run, None)
        if self._closed:
            raise DatabaseClosed("the coordinator's database is closed")
        return self._pool.submit(self._read, run)

    def _read(self, run: Callable[[Connection], T]) -> T:
        with self._readers.connect() as connection, connection.begin():
            return run(connection)

    def _write_all(self) -> None:
        with self._engine.connect() as connection:
            while (first := self._operations.get()) is not None:
                batch = [first]
                ended = False
                while len(batch) < MAX_BATCH and not ended:
                    try:
                        following = self._operations.get_nowait()
                    except queue.Empty:
                        break
                    if following is None:
                        ended = True
                    else:
                        batch.append(following)
                _commit_together(connection, batch)
                if ended:
                    return


def after_commit(connection: Connection, callback: Callable[[], None]) -> None:
    """Inside a write function: run ``callback`` on the event loop once the write is on the disk."""
    cast("list[Callable[[], None]]", connection.info[_CALLBACKS]).append(callback)


def _commit_together(connection: Connection, batch: list[_Operation]) -> None:
    outcomes: list[tuple[_Operation, Any, BaseException | None]] = []
    try:
        with connection.begin():
            for operation in batch:
                if operation.future.set_running_or_notify_cancel():
                    outcomes.append((operation, *_run_one(connection, operation)))
    except Exception as failure:
        # The commit itself failed: nothing of the batch is on the disk, and everyone is told so.
        _refuse_all(batch, failure)
        return
    for operation, result, error in outcomes:
        if error is not None:
            operation.future.set_exception(error)
            continue
        _announce(operation)
        operation.future.set_result(result)


def _refuse_all(batch: list[_Operation], failure: Exception) -> None:
    for operation in batch:
        future = operation.future
        if not future.cancelled() and (future.running() or future.set_running_or_notify_cancel()):
            future.set_exception(failure)


def _run_one(connection: Connection, operation: _Operation) -> tuple[Any, BaseException | None]:
    connection.info[_CALLBACKS] = operation.callbacks
    # SQLAlchemy's own savepoints would cost more than most of the statements that stand in them.
    raw = cast("driver.Connection", connection.connection.dbapi_connection)
    raw.execute("SAVEPOINT operation")
    try:
        result = operation.run(connection)
    except Exception as error:
        try:
            raw.execute("ROLLBACK TO operation")
            raw.execute("RELEASE operation")
        except driver.Error:
            # SQLite gave the whole transaction up (a full disk does that), so this is everyone's error.
            raise error from None
        return None, error
    raw.execute("RELEASE operation")
    return result, None


def _announce(operation: _Operation) -> None:
    for callback in operation.callbacks:
        if operation.loop is None:
            callback()
        elif not operation.loop.is_closed():
            operation.loop.call_soon_threadsafe(callback)


def _engine(path: Path, *, begin: str, size: int, query_only: bool) -> Engine:
    def connect() -> driver.Connection:
        # The driver leaves BEGIN to us; it would otherwise begin late and read before it locks.
        connection = driver.connect(
            str(path), timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA query_only = {int(query_only)}")
        return connection

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    engine = create_engine(
        "sqlite://",
        module=driver.driver,
        creator=connect,
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        # An error's text goes to the log, and parameters hold what people submit and hashes of their secrets.
        hide_parameters=True,
    )
    event.listen(engine, "begin", start)
    return engine
