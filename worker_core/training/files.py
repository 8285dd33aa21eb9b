"""The job's folder and the one way this process writes a file that must be complete or absent."""

import hashlib
import os
from pathlib import Path

import msgspec

from worker_core.wire.spec import JobSpec, load_spec

_HASH_BYTES = 1 << 20


class JobIdentity(msgspec.Struct, frozen=True):
    """``job.json``: which job and which attempt this is."""

    job_id: str = ""
    attempt_id: str = ""
    attempt: int = 1


class ResumeNote(msgspec.Struct, frozen=True):
    """``resume/resume.json``: what the checkpoint beside it must be."""

    step: int
    sha256: str


class JobFolder:
    """Paths of a workspace, and what the core has laid there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.code = root / "code"
        self.checkpoints = root / "checkpoints"
        self.results = root / "results"
        self.resume = root / "resume" / "checkpoint"

    def read_spec(self) -> tuple[JobSpec, str]:
        """Return the spec and the sha256 of its exact text."""
        text = (self.root / "spec.json").read_bytes()
        return load_spec(text), hashlib.sha256(text).hexdigest()

    def read_identity(self) -> JobIdentity:
        """Return which attempt this is."""
        path = self.root / "job.json"
        return msgspec.json.decode(path.read_bytes(), type=JobIdentity) if path.exists() else JobIdentity()

    def read_resume_note(self) -> ResumeNote | None:
        """Return what to resume from, or None for a fresh start."""
        path = self.root / "resume" / "resume.json"
        return msgspec.json.decode(path.read_bytes(), type=ResumeNote) if path.exists() else None


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` so that ``path`` is the old file or the whole new one, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file's content in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASH_BYTES):
            digest.update(block)
    return digest.hexdigest()
