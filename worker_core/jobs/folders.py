"""Folders that a job filled: measured and removed, whatever lies in them, and files of it opened without a trap.

A job may nest folders deeper than a path can name, make holes, second names and pipes. Nothing here recurses, follows
a link or waits for a pipe.
"""

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

UNMEASURABLE = sys.maxsize
"""The size of a folder into which nobody can look."""
_HIDES = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM)
_BLOCK_BYTES = 512
_JUNCTION = 0xA0000003
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_plain(path: Path) -> BinaryIO:
    """Open a plain file to read; raises OSError for a link, a pipe or anything else, and never waits for one."""
    descriptor = os.open(path, _READ)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "This is no plain file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def folder_size(folder: Path) -> int:
    """Return the bytes that a folder takes of the disk, links not followed and files with several names counted once.

    :data:`UNMEASURABLE` when it holds folders that are nested too deep to be named, or closed to their owner.
    """
    total, ahead, counted = 0, [str(folder)], set[tuple[int, int]]()
    while ahead:
        try:
            for entry, found in _look_into(ahead.pop()):
                if _is_folder(found):
                    ahead.append(entry.path)
                elif found.st_nlink > 1:
                    if (found.st_dev, found.st_ino) in counted:
                        continue
                    counted.add((found.st_dev, found.st_ino))
                total += _bytes_of(found)
        except OSError as error:
            if error.errno in _HIDES:
                return UNMEASURABLE
    return total


def remove_folder(folder: Path) -> OSError | None:
    """Remove a folder with all that is in it; returns why something of it stays, None when it is gone.

    Folders inside are moved up before they are emptied, so that no path gets too long however deep they lie.
    """
    numbers, mark = count(), secrets.token_hex(8)
    while True:
        gone, reasons = 0, list[OSError]()
        try:
            open_up(folder)
            for name in os.listdir(folder):
                try:
                    _remove_entry(folder / name, (folder / f"{mark}-{number}" for number in numbers))
                    gone += 1
                except OSError as error:
                    reasons.append(error)
            if not gone and not reasons:
                folder.rmdir()
                return None
        except FileNotFoundError:
            return None
        except OSError as error:
            return error
        if not gone:
            return reasons[0]


def open_up(folder: Path) -> None:
    """Let the owner of a folder look into it and move it, whatever a job made of its rights; raises OSError."""
    if _is_folder(os.lstat(folder)):
        folder.chmod(stat.S_IRWXU)


def _look_into(folder: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """Yield what is in a folder; what goes meanwhile is left out, because the job goes on while we count."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    # Not of the listing alone: that would not tell the second names of a file on every system.
                    yield entry, os.lstat(entry.path)
                except (FileNotFoundError, NotADirectoryError):
                    continue
    except (FileNotFoundError, NotADirectoryError):
        return


def _bytes_of(found: os.stat_result) -> int:
    return found.st_size if sys.platform == "win32" else found.st_blocks * _BLOCK_BYTES


def _is_folder(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and getattr(found, "st_reparse_tag", 0) != _JUNCTION


def _remove_entry(path: Path, places: Iterator[Path]) -> None:
    """Remove a file, or a folder whose own folders are moved to ``places`` first."""
    if not _is_folder(os.lstat(path)):
        _unlink(path)
        return
    open_up(path)  # the unpacked code is read-only: such folders do not let their entries go
    for name in os.listdir(path):
        inside = path / name
        if _is_folder(os.lstat(inside)):
            open_up(inside)
            inside.rename(next(places))
        else:
            _unlink(inside)
    path.rmdir()


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except PermissionError:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise
        path.chmod(stat.S_IRWXU)  # Windows keeps a file that is read-only
        path.unlink()
