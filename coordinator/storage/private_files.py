"""Write files that only the coordinator's user may read, whole or not at all."""

import errno
import os
import tempfile
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``, mode 0600; after a power cut it holds the old or the new bytes."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def append_private(path: Path, line: bytes) -> None:
    """Add one line to a 0600 file and wait until it is on the disk.

    A line that an earlier power cut or full disk left half-written stays a line of its own and spoils no other.
    """
    made = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        data = (b"" if size == 0 or _byte_at(handle, size - 1) == b"\n" else b"\n") + line + b"\n"
        if os.write(handle, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(handle)
    finally:
        os.close(handle)
    if made:
        sync_folder(path.parent)


def _byte_at(handle: int, offset: int) -> bytes:
    os.lseek(handle, offset, os.SEEK_SET)
    return os.read(handle, 1)


def sync_folder(folder: Path) -> None:
    """Make a rename or a new name in ``folder`` survive a power cut (POSIX; elsewhere the file system does it)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
