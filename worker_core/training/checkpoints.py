"""Checkpoints: one safetensors file each, complete or absent, that says of itself what it is.

Arrays are tensors of the file; everything else is JSON in its header. The header names the schema, the job spec it
belongs to and a hash of the arrays, so that a torn or foreign file is refused by name and never half loaded.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from worker_core.training.failures import JobFailure
from worker_core.training.files import sha256_of, write_whole
from worker_core.wire.frames import ArtifactReady

SCHEMA = "stoker.checkpoint/1"
LATEST = "latest.json"

Arrays = dict[str, NDArray[Any]]
State = dict[str, Any]


@dataclass
class _Kept:
    path: Path
    score: float
    sha256: str
    step: int
    frame_id: int | None = None


class CheckpointStore:
    """Writes checkpoints into one folder and keeps the newest few and the best."""

    def __init__(self, folder: Path, spec_sha256: str, keep: int) -> None:
        self._folder = folder
        self._spec_sha256 = spec_sha256
        self._keep = keep
        self._kept: list[_Kept] = []

    def save(self, arrays: Arrays, state: State, step: int, score: float) -> ArtifactReady:
        """Write a checkpoint and return what to announce; ``score`` tells which one is the best."""
        header = {
            "schema": SCHEMA,
            "spec_sha256": self._spec_sha256,
            "arrays_sha256": arrays_sha256(arrays),
            "state": json.dumps(state, allow_nan=False),
        }
        name = f"step-{step:012d}.safetensors"
        path = self._folder / name
        data = save(arrays, header)
        write_whole(path, data)
        artifact = ArtifactReady(
            name=name,
            kind="checkpoint",
            path=f"{self._folder.name}/{name}",
            sha256=hashlib.sha256(data).hexdigest(),
            size=len(data),
            step=step,
        )
        latest = {"path": artifact.path, "step": step, "sha256": artifact.sha256, "size": artifact.size}
        write_whole(self._folder / LATEST, json.dumps(latest).encode())
        self._kept = [*(kept for kept in self._kept if kept.path != path), _Kept(path, score, artifact.sha256, step)]
        return artifact

    def announced(self, frame_id: int) -> None:
        """Note the frame that announced the newest checkpoint: until it is acknowledged the file stays."""
        self._kept[-1].frame_id = frame_id

    def prune(self, is_acked: Callable[[int], bool]) -> None:
        """Remove checkpoints that are neither among the newest nor the best, once the core holds them."""
        best = max(self._kept, key=lambda kept: kept.score, default=None)
        for kept in self._kept[: -self._keep]:
            if kept is not best and kept.frame_id is not None and is_acked(kept.frame_id):
                kept.path.unlink(missing_ok=True)
                self._kept.remove(kept)

    def newest(self, log: Callable[[str], None]) -> tuple[Arrays, State, int] | None:
        """Return arrays, state and step of the newest whole checkpoint; torn ones are set aside and named."""
        while self._kept:
            kept = self._kept[-1]
            try:
                return *load_checkpoint(kept.path, kept.sha256, self._spec_sha256), kept.step
            except JobFailure as error:
                self._kept.pop()
                log(f"{error}; {_set_aside(kept.path)}")
        return None


def _set_aside(path: Path) -> str:
    """Give a torn file a name under which nobody takes it for a checkpoint, and say which."""
    aside = path.with_suffix(".torn")
    try:
        path.replace(aside)
    except FileNotFoundError:
        return "an older one is tried"
    return f"it is set aside as {aside.name}, and an older one is tried"


def load_checkpoint(path: Path, sha256: str, spec_sha256: str) -> tuple[Arrays, State]:
    """Return the arrays and the state of a checkpoint; raises :class:`JobFailure` for any file that is not one."""
    if not path.exists():
        raise _refused(path, "is missing")
    if sha256_of(path) != sha256:
        raise _refused(path, "does not have the sha256 it was saved with; it is torn or was changed")
    try:
        with safe_open(path, framework="numpy") as file:  # pyright: ignore[reportUnknownVariableType]
            opened = cast(Any, file)
            header: dict[str, str] = dict(opened.metadata() or {})
            arrays: Arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise _refused(path, f"is not a whole safetensors file ({error})") from error
    if header.get("schema") != SCHEMA:
        raise _refused(path, f"has schema {header.get('schema')!r}; this version reads {SCHEMA}")
    if header.get("spec_sha256") != spec_sha256:
        raise _refused(path, "belongs to another job spec")
    if header.get("arrays_sha256") != arrays_sha256(arrays):
        raise _refused(path, "holds other arrays than its header says")
    return arrays, cast(State, json.loads(header["state"]))


def arrays_sha256(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a hash of names, types, shapes and bytes of all arrays."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _refused(path: Path, why: str) -> JobFailure:
    return JobFailure("data-missing", f"the checkpoint {path.name} in {path.parent.name}/ {why}")
