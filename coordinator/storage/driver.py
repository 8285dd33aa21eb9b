"""The one place that chooses the SQLite driver: pysqlite3 where it is installed, else Python's own."""

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3 as sqlite
else:
    try:
        import pysqlite3 as sqlite
    except ImportError:
        import sqlite3 as sqlite

driver: ModuleType = sqlite
Connection = sqlite.Connection
connect = sqlite.connect
Error = sqlite.Error

VERSION = sqlite.sqlite_version
SAFE_WAL = sqlite.sqlite_version_info >= (3, 51, 3)
"""Older versions can lose a commit when one connection writes while another resets the log."""
