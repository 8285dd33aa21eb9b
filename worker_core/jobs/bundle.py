"""Unpacks a job's code: a ``tar.gz`` from somewhere else, so nothing in it is believed.

Only plain files and folders under relative names are taken. Sizes and counts are bounded while reading, so that a small
archive cannot fill the disk or the memory.
"""

import gzip
import io
import re
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, cast

MAX_ENTRIES = 20_000
MAX_DEPTH = 32
MAX_TOTAL_BYTES = 4 << 30
_MAX_READ = 1 << 20
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"|?*\\\ud800-\udfff]|[ .]$')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


class BadBundle(Exception):
    """The archive is not a bundle of code; the text says which entry and why."""


class _BoundedReader(io.RawIOBase):
    """The unpacked stream, which ends with an error at ``limit`` bytes, or when a header asks for too much at once."""

    def __init__(self, stream: gzip.GzipFile, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise BadBundle("it has a header of more than 1 MiB")
        self._within(self._stream.tell() + size - _MAX_READ)
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._within(offset)
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def _within(self, offset: int) -> None:
        if offset > self._limit:
            raise BadBundle(f"it unpacks to more than {self._limit:,} bytes")


def unpack_bundle(archive: Path, target: Path, *, max_bytes: int = MAX_TOTAL_BYTES) -> None:
    """Unpack ``archive`` into the new folder ``target``, read-only; raises :class:`BadBundle`."""
    target.mkdir()
    try:
        with gzip.open(archive) as unzipped:
            _unpack(_BoundedReader(unzipped, max_bytes), target)
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        # tarfile raises a plain ValueError for a damaged header of a sparse file.
        raise BadBundle(f"it is not a whole tar.gz archive ({error})") from error
    _make_read_only(target)


def _unpack(stream: _BoundedReader, target: Path) -> None:
    with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r:") as tar:
        for number, member in enumerate(tar):
            if number >= MAX_ENTRIES:
                raise BadBundle(f"it has more than {MAX_ENTRIES:,} entries")
            _take(tar, member, target)
        # tarfile takes a damaged header for the end; a true end is a block of zeros.
        stream.seek(tar.offset)
        if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise BadBundle("it is not a whole tar.gz archive (it has no end)")


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    path = target.joinpath(*_safe_parts(member.name))
    try:
        _write(tar, member, path)
    except (FileExistsError, NotADirectoryError) as error:
        raise BadBundle(f"{member.name!r} is there twice, or is a file and a folder") from error


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    if member.type == tarfile.DIRTYPE and member.size == 0:
        path.mkdir(parents=True, exist_ok=True)
        return
    source = tar.extractfile(member) if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None
    if source is None:
        raise BadBundle(f"{member.name!r} is neither a plain file nor a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    with source, path.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 16)
    if path.stat().st_size != member.size:
        raise BadBundle(f"{member.name!r} is cut off")
    path.chmod(0o555 if member.mode & 0o100 else 0o444)


def _safe_parts(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or len(parts) > MAX_DEPTH:
        raise BadBundle(f"{name[:200]!r} is not a relative name of at most {MAX_DEPTH} parts")
    for part in parts:
        if part == ".." or _FORBIDDEN.search(part) or _RESERVED.fullmatch(part) or len(part.encode()) > 255:
            raise BadBundle(f"{name[:200]!r} is not a name that every system can have")
    return parts


def _make_read_only(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o555)
    folder.chmod(0o555)
