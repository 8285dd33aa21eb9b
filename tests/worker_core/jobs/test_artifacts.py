"""Files that a job announces: those of its workspace, and no others."""

import hashlib
import os
from collections.abc import Callable
from typing import Any

import pytest

from worker_core.jobs.artifacts import BadArtifact, take_artifact
from worker_core.journal.records import NewAttempt
from worker_core.wire.frames import ArtifactReady

CONTENT = b"content"


async def take(bench: Any, attempt: Callable[..., NewAttempt], path: str, content: bytes = CONTENT) -> None:
    row = attempt()
    await bench.journal.add_attempt(row)
    workspace = bench.paths.workspaces / row.attempt_id
    (workspace / "results").mkdir(parents=True)
    (workspace / "results" / "file").write_bytes(content)
    os.mkfifo(workspace / "results" / "pipe")
    (workspace / "results" / "link").symlink_to("file")
    (bench.paths.workspaces / "outside").write_bytes(CONTENT)
    ready = ArtifactReady(
        name="file", kind="result", path=path, sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT)
    )
    await take_artifact(bench.paths, bench.journal, row.attempt_id, workspace, ready, now=1.0)


async def test_a_file_of_the_workspace_is_taken(bench: Any, attempt: Callable[..., NewAttempt]) -> None:
    await take(bench, attempt, "results/file")
    assert [upload.name for upload in await bench.journal.uploads()] == ["file"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../outside",
        "results/../../outside",
        "/etc/passwd",
        "results/link",
        "results",
        "results/none",
        "results/pipe",
        # What would lead elsewhere on Windows, and what no system has.
        "..\\outside",
        "C:\\outside",
        "C:outside",
        "results/file:stream",
        "results/\0",
    ],
)
async def test_a_path_that_leads_elsewhere_is_refused(
    bench: Any, attempt: Callable[..., NewAttempt], path: str
) -> None:
    with pytest.raises(BadArtifact):
        await take(bench, attempt, path)
    assert await bench.journal.uploads() == []


async def test_a_file_with_other_bytes_than_announced_is_refused(
    bench: Any, attempt: Callable[..., NewAttempt]
) -> None:
    with pytest.raises(BadArtifact, match="results/file"):
        await take(bench, attempt, "results/file", content=b"changed")
