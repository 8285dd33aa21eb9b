"""The folder of an attempt: what lies in it, where it comes from, and that it goes away."""

import asyncio
import errno
import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worker_core.jobs.blobs import add_blob, blob_path, partial_path
from worker_core.jobs.folders import folder_size
from worker_core.jobs.workspace import (
    FetchFailed,
    NotPrepared,
    is_disk_full,
    make_workspace,
    remove_workspace,
    sweep_workspaces,
    workspace_path,
)
from worker_core.journal.records import NewAttempt
from worker_core.machine.paths import Paths
from worker_core.wire.failure_rules import RETRYABLE_FAILURES
from worker_core.wire.signed import Input
from worker_core.wire.work import ResumePoint


def bundle(content: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        info = tarfile.TarInfo("main.py")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)


class Store:
    """The coordinator's blobs; serves what is missing of a file, as W10 does."""

    def __init__(self, *blobs: bytes) -> None:
        self.blobs = {hashlib.sha256(blob).hexdigest(): blob for blob in blobs}
        self.served: list[tuple[str, int]] = []

    async def fetch(self, sha256: str, size: int, destination: Path) -> None:
        await asyncio.to_thread(self._append, sha256, destination)

    def _append(self, sha256: str, destination: Path) -> None:
        with destination.open("ab") as file:
            self.served.append((sha256, file.tell()))
            file.write(self.blobs[sha256][file.tell() :])

    def input(self, name: str, blob: bytes) -> Input:
        return Input(name=name, sha256=hashlib.sha256(blob).hexdigest(), size=len(blob))


async def test_a_workspace_has_code_inputs_and_the_checkpoint_to_go_on_from(
    paths: Paths, attempt: Callable[..., NewAttempt]
) -> None:
    code, data, saved = bundle(b"print(1)"), b"numbers", b"weights"
    store = Store(code, data, saved)
    point = store.input("checkpoint", saved)
    row = attempt(
        inputs=(store.input("code", code), store.input("data.bin", data)),
        resume_from=ResumePoint(attempt_id="att_0", step=7, sha256=point.sha256, size=point.size),
    )
    workspace = await make_workspace(paths, row, store.fetch)
    assert (workspace / "code" / "main.py").read_bytes() == b"print(1)"
    assert (workspace / "inputs" / "data.bin").read_bytes() == data
    assert (workspace / "resume" / "checkpoint").read_bytes() == saved
    assert b'"step":7' in (workspace / "resume" / "resume.json").read_bytes()
    assert (workspace / "spec.json").read_text() == row.accepted.spec
    assert workspace.stat().st_mode & 0o077 == 0


async def test_an_input_that_is_here_is_not_fetched_again(paths: Paths, attempt: Callable[..., NewAttempt]) -> None:
    store = Store(b"data")
    row = attempt(inputs=(store.input("data", b"data"),))
    await make_workspace(paths, row, store.fetch)
    await make_workspace(paths, row, store.fetch)
    assert len(store.served) == 1


async def test_an_input_that_another_job_changed_is_fetched_again(
    paths: Paths, attempt: Callable[..., NewAttempt]
) -> None:
    store = Store(b"data")
    one = store.input("data", b"data")
    workspace = await make_workspace(paths, attempt(inputs=(one,)), store.fetch)
    (workspace / "inputs" / "data").write_bytes(b"evil")
    other = await make_workspace(paths, attempt(inputs=(one,)), store.fetch)
    assert (other / "inputs" / "data").read_bytes() == b"data"


async def test_a_fetch_goes_on_where_an_earlier_one_was_cut(paths: Paths, attempt: Callable[..., NewAttempt]) -> None:
    store = Store(b"0123456789")
    one = store.input("data", b"0123456789")
    part = partial_path(paths.blobs, one.sha256)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"0123")
    await make_workspace(paths, attempt(inputs=(one,)), store.fetch)
    assert store.served == [(one.sha256, 4)]


async def test_a_wrong_beginning_is_thrown_away_once(paths: Paths, attempt: Callable[..., NewAttempt]) -> None:
    store = Store(b"0123456789")
    one = store.input("data", b"0123456789")
    part = partial_path(paths.blobs, one.sha256)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"WRONG")
    workspace = await make_workspace(paths, attempt(inputs=(one,)), store.fetch)
    assert (workspace / "inputs" / "data").read_bytes() == b"0123456789"
    assert store.served == [(one.sha256, 5), (one.sha256, 0)]


async def test_damaged_and_missing_inputs_have_a_class(paths: Paths, attempt: Callable[..., NewAttempt]) -> None:
    damaged = Store()
    damaged.blobs["a" * 64] = b"other"
    row = attempt(inputs=(Input(name="data", sha256="a" * 64, size=5),))
    with pytest.raises(NotPrepared) as caught:
        await make_workspace(paths, row, damaged.fetch)
    assert caught.value.failure == "data-missing"

    async def refuse(sha256: str, size: int, destination: Path) -> None:
        raise FetchFailed("no lease")

    with pytest.raises(NotPrepared, match="no lease") as caught:
        await make_workspace(paths, row, refuse)
    assert caught.value.failure == "data-missing"


async def test_an_outage_while_fetching_is_tried_again_by_another_attempt(
    paths: Paths, attempt: Callable[..., NewAttempt]
) -> None:
    async def cut_off(sha256: str, size: int, destination: Path) -> None:
        raise FetchFailed("no contact for six minutes", passing=True)

    row = attempt(inputs=(Input(name="data", sha256="a" * 64, size=5),))
    with pytest.raises(NotPrepared) as caught:
        await make_workspace(paths, row, cut_off)
    assert caught.value.failure in RETRYABLE_FAILURES


async def test_a_full_disk_is_called_a_full_disk(paths: Paths, attempt: Callable[..., NewAttempt]) -> None:
    async def fill(sha256: str, size: int, destination: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(NotPrepared) as caught:
        await make_workspace(paths, attempt(inputs=(Input(name="data", sha256="a" * 64, size=5),)), fill)
    assert caught.value.failure == "disk-full"


def append(part: Path, byte: int) -> None:
    with part.open("ab") as file:
        file.write(bytes([byte]))


async def test_two_attempts_that_want_one_file_do_not_spoil_it_for_each_other(
    paths: Paths, attempt: Callable[..., NewAttempt]
) -> None:
    fetched: list[str] = []

    async def append_slowly(sha256: str, size: int, destination: Path) -> None:
        fetched.append(sha256)
        have = await asyncio.to_thread(lambda: destination.stat().st_size if destination.exists() else 0)
        for byte in b"0123456789"[have:]:
            append(destination, byte)
            await asyncio.sleep(0.01)

    one = Store().input("data", b"0123456789")
    made = await asyncio.gather(*(make_workspace(paths, attempt(inputs=(one,)), append_slowly) for _ in range(2)))
    assert [(workspace / "inputs" / "data").read_bytes() for workspace in made] == [b"0123456789"] * 2
    assert fetched == [one.sha256]


async def test_a_fault_of_ours_is_an_attempt_that_did_not_start(
    paths: Paths, attempt: Callable[..., NewAttempt]
) -> None:
    async def stumble(sha256: str, size: int, destination: Path) -> None:
        raise RuntimeError("nobody thought of this")

    row = attempt(inputs=(Input(name="data", sha256="a" * 64, size=5),))
    with pytest.raises(NotPrepared, match="nobody thought of this") as caught:
        await make_workspace(paths, row, stumble)
    assert caught.value.failure == "start-failed"


def test_a_spent_share_of_a_disk_is_a_full_disk() -> None:
    assert is_disk_full(OSError(errno.EDQUOT, "Disk quota exceeded"))


def test_a_folder_that_changes_while_it_is_measured_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").write_bytes(b"12345")
    before = folder_size(tmp_path)
    (tmp_path / "odd").write_bytes(b"1")
    true = os.lstat

    def lstat(path: Any) -> os.stat_result:
        if str(path).endswith("odd"):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory")
        return true(path)

    monkeypatch.setattr(os, "lstat", lstat)
    assert folder_size(tmp_path) == before > 0


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a b"])
async def test_an_input_cannot_choose_its_folder(paths: Paths, attempt: Callable[..., NewAttempt], name: str) -> None:
    store = Store(b"data")
    with pytest.raises(NotPrepared) as caught:
        await make_workspace(paths, attempt(inputs=(store.input(name, b"data"),)), store.fetch)
    assert caught.value.failure == "bad-spec"


async def test_code_that_is_no_bundle_is_a_bad_spec(paths: Paths, attempt: Callable[..., NewAttempt]) -> None:
    store = Store(b"not a bundle")
    with pytest.raises(NotPrepared) as caught:
        await make_workspace(paths, attempt(inputs=(store.input("code", b"not a bundle"),)), store.fetch)
    assert caught.value.failure == "bad-spec"


async def test_a_removed_workspace_is_gone_with_its_read_only_code(
    paths: Paths, attempt: Callable[..., NewAttempt]
) -> None:
    code = bundle(b"x")
    store = Store(code)
    row = attempt(inputs=(store.input("code", code),))
    workspace = await make_workspace(paths, row, store.fetch)
    assert await remove_workspace(paths, row.attempt_id)
    assert not workspace.exists()
    assert await remove_workspace(paths, row.attempt_id)


async def test_read_only_code_goes_on_windows_too(
    paths: Paths, attempt: Callable[..., NewAttempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def unlink_as_windows_does(self: Path, missing_ok: bool = False) -> None:
        if not self.stat().st_mode & stat.S_IWUSR:
            raise PermissionError(13, "Access is denied")
        unlink(self, missing_ok=missing_ok)

    code = bundle(b"x")
    store = Store(code)
    row = attempt(inputs=(store.input("code", code),))
    await make_workspace(paths, row, store.fetch)
    monkeypatch.setattr(Path, "unlink", unlink_as_windows_does)
    assert await remove_workspace(paths, row.attempt_id)


async def test_a_sweep_removes_all_but_what_is_kept(paths: Paths, attempt: Callable[..., NewAttempt]) -> None:
    rows = [attempt() for _ in range(3)]
    for row in rows:
        await make_workspace(paths, row, Store().fetch)
    assert await sweep_workspaces(paths, {rows[1].attempt_id}) == []
    assert [workspace_path(paths, row.attempt_id).exists() for row in rows] == [False, True, False]


def test_a_blob_is_taken_once_and_outlives_its_source(paths: Paths, tmp_path: Path) -> None:
    source = tmp_path / "file"
    source.write_bytes(b"content")
    sha256 = hashlib.sha256(b"content").hexdigest()
    path = add_blob(paths.blobs, source, sha256, 7)
    source.unlink()
    assert path == blob_path(paths.blobs, sha256)
    assert path.read_bytes() == b"content"
    assert [file.name for file in paths.blobs.rglob("*") if file.is_file()] == [sha256]


async def test_a_folder_that_something_holds_waits_for_a_later_sweep_and_the_log_says_why(
    paths: Paths,
    attempt: Callable[..., NewAttempt],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    row, other, store = attempt(), attempt(), Store()
    held = await make_workspace(paths, row, store.fetch)

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(13, "The process cannot access the file because it is being used by another process")

    monkeypatch.setattr(Path, "rename", refuse)
    assert not await remove_workspace(paths, row.attempt_id)
    assert "being used by another process" in caplog.text
    assert (await make_workspace(paths, other, store.fetch)).is_dir()  # the next job has a folder of its own
    assert await sweep_workspaces(paths, {other.attempt_id}) == [held.name]
    monkeypatch.undo()
    assert await sweep_workspaces(paths, {other.attempt_id}) == []
    assert not held.exists()
