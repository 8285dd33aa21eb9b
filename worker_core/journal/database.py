"""The journal's file and its one thread: transactions run there in the order they were asked for."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from worker_core.journal.driver import Connection, Error, connect
from worker_core.journal.records import JournalError, JournalFull
from worker_core.journal.schema import NewerJournal, migrate

T = TypeVar("T")


class Database:
    """One connection, used by one thread only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._connection: Connection
        self._durable: bool | None = None
        try:
            self._thread.submit(self._open).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def run_now(self, act: Callable[[Connection], T]) -> T:
        """Run a durable transaction and wait for it; for the start, before anything else is going on."""
        return self._thread.submit(self._transact, act, True).result()

    def run(
        self, act: Callable[[Connection], T], *, durable: bool, committed: Callable[[], None] | None = None
    ) -> asyncio.Future[T]:
        """Run ``act`` in a transaction, and ``committed`` right after its commit; the future resolves after both.

        A ``durable`` commit survives a power cut together with all that were made before it; others survive the end
        of this process in whatever way.
        """
        return asyncio.get_running_loop().run_in_executor(self._thread, self._transact, act, durable, committed)

    async def scrub(self) -> None:
        """Write the file anew, so that nothing that was deleted can be read from it."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._scrub)

    async def close(self) -> None:
        """Close the file after everything that was asked for."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown()

    def _open(self) -> None:
        try:
            self._connection = connect(self._path)
        except Error as error:
            raise self._explain(error) from error
        try:
            migrate(self._connection)
        except (Error, NewerJournal) as error:
            self._connection.close()
            raise self._explain(error) from error

    def _transact(
        self, act: Callable[[Connection], T], durable: bool, committed: Callable[[], None] | None = None
    ) -> T:
        try:
            self._set_durability(durable)
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                result = act(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except Error as error:
            raise self._explain(error) from error
        if committed:
            committed()
        return result

    def _scrub(self) -> None:
        try:
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except Error as error:
            raise self._explain(error) from error

    def _set_durability(self, durable: bool) -> None:
        if durable != self._durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _explain(self, error: Exception) -> JournalError:
        if "full" in str(error):
            return JournalFull(
                f"The disk that holds {self._path} is full. Free some space; the worker goes on by itself."
            )
        return JournalError(f"The journal {self._path} cannot be used: {error}.")
