"""Files by content: inputs, checkpoints and results under the sha256 of their bytes, for all attempts together."""

import asyncio
import hashlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from worker_core.jobs.folders import open_plain
from worker_core.journal.journal import Journal
from worker_core.machine.atomic_files import private_folder, sync_folder

_LEFT_KEPT_S = 7 * 86400
"""What a core that was killed left half-done is kept so long: a download goes on where it stood."""
_TAKING = ".taking-"
_COPY_BYTES = 1 << 20


class BlobDamaged(Exception):
    """A file does not have the content that was announced."""


def blob_path(blobs: Path, sha256: str) -> Path:
    """Return where the bytes of ``sha256`` lie, or would lie."""
    return blobs / sha256[:2] / sha256


def partial_path(blobs: Path, sha256: str) -> Path:
    """Return where a blob grows until it is complete."""
    return blobs / "incoming" / f"{sha256}.part"


def hash_file(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def holds_blob(blobs: Path, sha256: str, size: int) -> bool:
    """Tell whether the blob is here with its right bytes; one that was damaged is removed."""
    path = blob_path(blobs, sha256)
    if not path.is_file():
        return False
    if path.stat().st_size == size and hash_file(path) == sha256:
        os.utime(path)
        return True
    path.unlink()
    return False


def add_blob(blobs: Path, source: Path, sha256: str, size: int) -> Path:
    """Take a complete file in, as a second name of it or as a copy; raises :class:`BlobDamaged` or OSError."""
    path = blob_path(blobs, sha256)
    if holds_blob(blobs, sha256, size):
        return path
    _check_kind(source, sha256, size)
    private_folder(path.parent)
    temporary = Path(tempfile.mkdtemp(prefix=_TAKING, dir=blobs)) / sha256
    try:
        link_or_copy(source, temporary)
        # What is checked is the file under our own name, whatever the job does to its name meanwhile.
        _check(temporary, sha256, size)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary.parent)
    sync_folder(path.parent)
    return path


def finish_partial(blobs: Path, sha256: str, size: int) -> Path:
    """Make the complete partial file a blob; a wrong one is removed and raises :class:`BlobDamaged`."""
    part, path = partial_path(blobs, sha256), blob_path(blobs, sha256)
    try:
        _check(part, sha256, size)
    except BlobDamaged:
        part.unlink(missing_ok=True)
        raise
    with part.open("rb") as file:
        os.fsync(file.fileno())
    private_folder(path.parent)
    part.replace(path)
    sync_folder(path.parent)
    return path


def link_or_copy(source: Path, target: Path) -> None:
    """Give a plain file a second name, or copy it where the file system has no such thing."""
    try:
        os.link(source, target, follow_symlinks=False)
    except (OSError, NotImplementedError):
        with open_plain(source) as old, target.open("xb") as new:
            left = os.fstat(old.fileno()).st_size  # a job that writes on does not make this endless
            while left and (piece := old.read(min(_COPY_BYTES, left))):
                left -= new.write(piece)
            new.flush()
            os.fsync(new.fileno())


class BlobCache:
    """The blobs with their budget: room is made before one comes in and when an attempt needs its own no more."""

    def __init__(self, blobs: Path, journal: Journal, budget_bytes: int) -> None:
        self._blobs = blobs
        self._journal = journal
        self._budget = budget_bytes

    async def make_room(self, size: int) -> None:
        """Remove what was unused for longest, so that ``size`` more bytes stay within the budget."""
        await collect_blobs(self._blobs, self._journal, max(1, self._budget - size))

    async def sweep(self) -> None:
        """Remove what is above the budget."""
        await self.make_room(0)

    async def give_back(self, size: int) -> None:
        """Remove what is not needed, about ``size`` bytes of it, because the disk is short of them."""
        held = await asyncio.to_thread(_held_bytes, self._blobs)
        await collect_blobs(self._blobs, self._journal, max(1, min(self._budget, held - size)))


async def collect_blobs(blobs: Path, journal: Journal, budget_bytes: int) -> int:
    """Remove the blobs unused for longest until all fit the budget; what is still needed stays. Return bytes freed.

    A budget of 0 says that nothing is wanted any more: half-done files then go too.
    """
    needed = {upload.sha256 for upload in await journal.uploads()}
    for row in await journal.attempts():
        needed |= {one.sha256 for one in row.accepted.inputs}
        needed |= {point.sha256 for point in (row.checkpoint, row.accepted.resume_from) if point}
    return await asyncio.to_thread(_collect, blobs, needed, budget_bytes)


def _held_bytes(blobs: Path) -> int:
    return sum(found.st_size for path in blobs.glob("??/*") if (found := _stat(path)))


def _collect(blobs: Path, needed: set[str], budget_bytes: int) -> int:
    files = [(found, path) for path in blobs.glob("??/*") if (found := _stat(path))]
    total = sum(found.st_size for found, _ in files)
    freed = 0
    for found, path in sorted(files, key=lambda item: item[0].st_mtime):
        if total - freed <= budget_bytes:
            break
        if path.name not in needed:
            path.unlink(missing_ok=True)
            freed += found.st_size
    too_old = time.time() - (_LEFT_KEPT_S if budget_bytes else 0)
    for left in (*blobs.glob("incoming/*.part"), *blobs.glob(f"{_TAKING}*")):
        found = _stat(left)
        if found and found.st_mtime < too_old:
            shutil.rmtree(left, ignore_errors=True) if stat.S_ISDIR(found.st_mode) else left.unlink(missing_ok=True)
    return freed


def _stat(path: Path) -> os.stat_result | None:
    """Return what a file is, or None for one that went meanwhile."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _check_kind(path: Path, sha256: str, size: int) -> None:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise BlobDamaged(f"{path.name} is not a plain file")
    if found.st_size != size:
        raise BlobDamaged(f"{sha256[:12]}… has {found.st_size} bytes, {size} were announced")


def _check(path: Path, sha256: str, size: int) -> None:
    _check_kind(path, sha256, size)
    if hash_file(path) != sha256:
        raise BlobDamaged(f"{sha256[:12]}… has other bytes than were announced")
