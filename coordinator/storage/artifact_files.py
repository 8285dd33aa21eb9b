"""Bytes on disk: finished files by content (``blobs/ab/abcd…``) and uploads that still grow (``uploads/upl_…``).

A finished file is complete and durable under its name, or not there: written, flushed, renamed, folder flushed.
"""

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from coordinator.storage.private_files import sync_folder

READ_BYTES = 1 << 20
_RESERVE_BYTES = 256 << 20


class Interrupted(Exception):
    """The coordinator stops, and a long look at a file with it."""


class ArtifactFiles:
    """The folders of a coordinator's data that hold artifacts. All calls block: use them in a thread."""

    def __init__(self, data: Path) -> None:
        self._blobs = data / "blobs"
        self._uploads = data / "uploads"
        for folder in (self._blobs, self._uploads):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End what takes long: a file of many gigabytes must not keep the coordinator alive."""
        self._stopping.set()

    def path_of(self, sha256: str) -> Path:
        """Return where a finished file lies."""
        return self._blobs / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        return self.path_of(sha256).is_file()

    def has_room(self, size: int) -> bool:
        """Tell whether the disk takes ``size`` more bytes and keeps a reserve."""
        return shutil.disk_usage(self._uploads).free - _RESERVE_BYTES >= size

    def write_chunk(self, upload_id: str, offset: int, chunk: bytes) -> None:
        """Put one verified chunk at its place and wait until it is on the disk."""
        handle = os.open(self._upload_path(upload_id), os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(handle, "r+b") as file:
            file.seek(offset)
            file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def finish(self, upload_id: str, sha256: str, size: int) -> bool:
        """Hash the whole upload; give it its final name when it is what was announced, else empty it.

        Raises :class:`Interrupted` when the coordinator stops meanwhile; the upload then stays as it is.
        """
        source, target = self._upload_path(upload_id), self.path_of(sha256)
        if not source.exists():
            # A repeated finish after a crash between the rename and the commit finds the finished file.
            return self.has(sha256) and self._digest(target, size) == sha256
        if source.stat().st_size < size or self._digest(source, size) != sha256:
            source.unlink()
            return False
        os.truncate(source, size)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        os.replace(source, target)
        sync_folder(target.parent)
        sync_folder(self._blobs)
        return True

    def start_upload(self, upload_id: str) -> None:
        """Make the empty file of an upload, so that one of size 0 can be finished too."""
        self._upload_path(upload_id).touch(mode=0o600)

    def drop_upload(self, upload_id: str) -> None:
        self._upload_path(upload_id).unlink(missing_ok=True)

    def drop_blob(self, sha256: str) -> None:
        self.path_of(sha256).unlink(missing_ok=True)

    def uploads(self) -> list[str]:
        """Return the ids of all growing files."""
        return [path.name for path in self._uploads.iterdir()]

    def settled_blobs(self, age_s: float) -> Iterator[Path]:
        """Return the finished files that were written at least so long ago (by the disk's clock)."""
        written_before = time.time() - age_s
        files = (path for folder in self._blobs.iterdir() if folder.is_dir() for path in folder.iterdir())
        return (path for path in files if path.stat().st_mtime < written_before)

    def _upload_path(self, upload_id: str) -> Path:
        return self._uploads / upload_id

    def _digest(self, path: Path, size: int) -> str:
        digest = hashlib.sha256()
        left = size
        with path.open("rb") as file:
            while left > 0 and (piece := file.read(min(READ_BYTES, left))):
                if self._stopping.is_set():
                    raise Interrupted
                digest.update(piece)
                left -= len(piece)
        return digest.hexdigest()


def read_range(path: Path, start: int, length: int) -> bytes:
    """Read a piece of a file."""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(length)
