"""Tells a full disk from other faults, whichever part met it."""

import errno

from sqlalchemy.exc import DatabaseError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_disk_full(error: BaseException) -> bool:
    """Tell whether an error means that the volume, or this user's share of it, has no room."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    # SQLite says "database or disk is full", also in the words of the error that wraps it.
    return isinstance(error, DatabaseError) and "disk is full" in str(error.orig)
