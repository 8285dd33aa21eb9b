"""The one place that chooses the SQLite to use: the newest that is installed."""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    driver = sqlite3
else:
    try:
        # SQLite before 3.51.3 can lose a commit when a second connection resets the log; this package carries a newer
        # one. Where it does not exist the journal is still safe, because it opens a single connection.
        import pysqlite3 as driver
    except ImportError:
        driver = sqlite3

Connection = sqlite3.Connection
Error: type[Exception] = driver.Error
SQLITE_VERSION: str = driver.sqlite_version


def connect_to_read(path: Path) -> Connection:
    """Open the database beside its writer, to look only: this connection can neither write nor checkpoint."""
    return driver.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=5.0)


def connect(path: Path) -> Connection:
    """Open the database for one writer that also checkpoints; transactions are begun and ended by us alone.

    Its file is for the owner only, and so are those beside it: SQLite gives them the rights of the first.
    """
    with suppress(OSError):  # what cannot be done here cannot be done by SQLite either, which says why
        path.touch(mode=0o600)
    for file in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        with suppress(OSError):
            file.chmod(0o600)
    connection = driver.connect(str(path), isolation_level=None, check_same_thread=False, timeout=5.0)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection
