"""Packs the `files` of a spec into the one archive that travels with a job, the same bytes for the same content."""

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.cli.errors import WrongUsage

MAX_FILES = 5000
MAX_BYTES = 64 << 20
CODE_INPUT = "code"
_LEFT_OUT = {"__pycache__", ".git", ".venv", ".DS_Store"}


@dataclass(frozen=True)
class Bundle:
    """A job's code as it travels: a gzipped tar, named by its content."""

    data: bytes
    sha256: str
    names: tuple[str, ...]


def pack(files: Sequence[str], folder: Path) -> Bundle | None:
    """Pack ``files`` (relative to ``folder``, the spec's own) or return None when there are none."""
    if not files:
        return None
    root = folder.resolve()
    found = _collect(files, root)
    data = _archive(found)
    return Bundle(data=data, sha256=hashlib.sha256(data).hexdigest(), names=tuple(sorted(found)))


def _collect(files: Sequence[str], root: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    size = 0
    for listed in files:
        for name, path in _expand(listed, root):
            if name not in found:
                size += path.stat().st_size
            found[name] = path
            if len(found) > MAX_FILES or size > MAX_BYTES:
                raise _too_much()
    return found


def _expand(listed: str, root: Path) -> Iterator[tuple[str, Path]]:
    start = _inside(root / _clean(listed), root, listed)
    if start.is_file():
        yield start_name(listed), start
        return
    base = root / _clean(listed)
    for folder, folders, names in os.walk(base):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in (*folders, *names):
            path = Path(folder) / name
            if path.is_symlink() and path.is_dir():
                raise _refused(listed, f"{path.relative_to(root)} is a link to a folder; list that folder instead")
        for name in sorted(names):
            if name in _LEFT_OUT or name.endswith(".pyc"):
                continue
            path = Path(folder) / name
            yield path.relative_to(root).as_posix(), _inside(path, root, listed)


def start_name(listed: str) -> str:
    """Return the name inside the archive of a single listed file."""
    return Path(_clean(listed)).as_posix()


def _clean(listed: str) -> str:
    if not listed or Path(listed).is_absolute() or ".." in Path(listed).parts or {"\\", "\0"} & set(listed):
        raise _refused(listed, "paths are relative to the spec's folder and stay inside it")
    return listed


def _inside(path: Path, root: Path, listed: str) -> Path:
    """Return where ``path`` really is, which must be a file or folder under ``root``."""
    try:
        real = path.resolve()
    except RuntimeError as error:  # what Python before 3.13 says of links that lead in a circle
        raise _refused(listed, f"{path.relative_to(root)} is a link that leads to itself") from error
    if not real.is_relative_to(root):
        raise _refused(listed, f"{path.relative_to(root)} is a link that leads out of the spec's folder")
    if not real.exists():
        raise WrongUsage(f"files: {listed} does not exist.", why=f"It was looked for in {root}.", code="no-such-file")
    if not real.is_file() and not real.is_dir():
        raise _refused(listed, f"{path.relative_to(root)} is neither a file nor a folder")
    return real


def _refused(listed: str, why: str) -> WrongUsage:
    return WrongUsage(f"files: {listed or 'an empty path'} cannot be packed.", why=why + ".", code="bad-files")


def _too_much() -> WrongUsage:
    return WrongUsage(
        "files: this is too much for a job's code.",
        why=f"The limits are {MAX_FILES} files and {MAX_BYTES >> 20} MiB.",
        cure="List only the code; data sets and models do not belong there.",
        code="bad-files",
    )


def _archive(found: dict[str, Path]) -> bytes:
    packed = io.BytesIO()
    folders = sorted({str(parent) for name in found for parent in Path(name).parents if str(parent) != "."})
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for folder in folders:
            archive.addfile(_entry(Path(folder).as_posix(), tarfile.DIRTYPE, 0, 0o755))
        for name, path in sorted(found.items()):
            content = _read(path)
            archive.addfile(_entry(name, tarfile.REGTYPE, len(content), 0o644), io.BytesIO(content))
    return packed.getvalue()


def _entry(name: str, kind: bytes, size: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size, entry.mode, entry.mtime = kind, size, mode, 0
    return entry


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WrongUsage(f"Cannot read {path}.", why=error.strerror or str(error), code="bad-files") from error
