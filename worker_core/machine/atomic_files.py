"""Writes files so that a reader, or a power cut, finds the old content or the new one and never a part of it."""

import os
import sys
import tempfile
from pathlib import Path


def write_file(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace ``path`` by ``data``; ``private`` files can be read by their owner only (0600)."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o600 if private else 0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names that were created, renamed or removed in ``folder`` survive a power cut."""
    if sys.platform == "win32":
        return  # NTFS journals names; a folder cannot be opened for a flush there
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(path: Path) -> Path:
    """Make ``path`` with its parents, for the owner only (0700), and return it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path
