"""Blobs: the bytes that were announced or nothing, and no more of them than there is room for."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worker_core.jobs.blobs import BlobCache, BlobDamaged, add_blob, blob_path, collect_blobs, holds_blob
from worker_core.jobs.evidence import out_of_memory_kills
from worker_core.jobs.runtime import RuntimeMissing, find_runtime
from worker_core.journal.records import NewAttempt, UploadRow
from worker_core.machine.paths import Paths
from worker_core.wire.signed import Input


def put(paths: Paths, tmp_path: Path, content: bytes, age_s: float) -> str:
    source = tmp_path / "source"
    source.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    path = add_blob(paths.blobs, source, sha256, len(content))
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    source.unlink()
    return sha256


@pytest.mark.parametrize(("size", "sha256"), [(4, "a" * 64), (5, hashlib.sha256(b"data").hexdigest())])
def test_a_file_with_other_bytes_is_not_taken(paths: Paths, tmp_path: Path, size: int, sha256: str) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"data")
    with pytest.raises(BlobDamaged):
        add_blob(paths.blobs, source, sha256, size)
    assert [path for path in paths.blobs.rglob("*") if path.is_file()] == []


def test_a_link_is_not_taken(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "secret")
    with pytest.raises(BlobDamaged, match="plain file"):
        add_blob(paths.blobs, link, hashlib.sha256(b"secret").hexdigest(), 6)


@pytest.mark.parametrize("swapped", ["pipe", "link", "endless"])
def test_a_file_that_is_swapped_while_it_is_copied_neither_blocks_nor_leads_elsewhere(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"data")

    def refuse(old: Path, new: Path, **_: object) -> None:
        source.unlink()
        if swapped == "pipe":
            os.mkfifo(source)
        elif swapped == "link":
            (tmp_path / "secret").write_bytes(b"data")
            source.symlink_to(tmp_path / "secret")
        else:
            source.write_bytes(b"data and more")
        raise OSError(31, "Too many links")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises((OSError, BlobDamaged)):
        add_blob(paths.blobs, source, hashlib.sha256(b"data").hexdigest(), 4)
    assert [path for path in paths.blobs.rglob("*") if path.is_file()] == []


def test_a_blob_that_was_damaged_on_disk_is_not_held(paths: Paths, tmp_path: Path) -> None:
    sha256 = put(paths, tmp_path, b"data", 0)
    assert holds_blob(paths.blobs, sha256, 4)
    blob_path(paths.blobs, sha256).write_bytes(b"dat!")
    assert not holds_blob(paths.blobs, sha256, 4)
    assert not blob_path(paths.blobs, sha256).exists()


async def test_the_oldest_blobs_go_first_and_needed_ones_never(
    bench: Any, attempt: Callable[..., NewAttempt], tmp_path: Path
) -> None:
    paths = bench.paths
    upload, one_input, old, new = (
        put(paths, tmp_path, name.encode() * 100, age) for name, age in (("u", 400), ("i", 300), ("o", 200), ("n", 100))
    )
    row = attempt(inputs=(Input(name="data", sha256=one_input, size=100),))
    await bench.journal.add_attempt(row)
    await bench.journal.add_upload(
        UploadRow(attempt_id=row.attempt_id, sha256=upload, name="r", kind="result", size=100)
    )
    assert await collect_blobs(paths.blobs, bench.journal, 300) == 100
    held = [blob_path(paths.blobs, sha256).exists() for sha256 in (upload, one_input, old, new)]
    assert held == [True, True, False, True]
    await collect_blobs(paths.blobs, bench.journal, 0)
    held = [blob_path(paths.blobs, sha256).exists() for sha256 in (upload, one_input, old, new)]
    assert held == [True, True, False, False]


async def test_what_a_killed_core_left_half_done_goes_after_a_week(bench: Any) -> None:
    blobs = bench.paths.blobs
    left = [blobs / ".taking-old" / "blob", blobs / ".taking-new" / "blob", blobs / "incoming" / "old.part"]
    for path in left:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"half")
    week_ago = time.time() - 8 * 86400
    for path in (left[0].parent, left[2]):
        os.utime(path, (week_ago, week_ago))
    await collect_blobs(blobs, bench.journal, 1 << 30)
    assert [path.exists() for path in left] == [False, True, False]
    await collect_blobs(blobs, bench.journal, 0)
    assert list(blobs.glob("**/*")) == [blobs / "incoming"]


def test_memory_kills_of_the_system_and_of_our_own_group_are_counted(tmp_path: Path) -> None:
    system, cgroups, root = tmp_path / "vmstat", tmp_path / "cgroup", tmp_path / "fs"
    system.write_text("nr_free 5\noom_kill 2\n")
    cgroups.write_text("1:memory:/old\n0::/user.slice/stoker\n")
    (root / "user.slice" / "stoker").mkdir(parents=True)
    (root / "user.slice" / "stoker" / "memory.events").write_text("oom 3\noom_kill 1\n")
    assert out_of_memory_kills(system, cgroups, root) == 3
    assert out_of_memory_kills(tmp_path / "no", tmp_path / "no", root) == 0


def test_jobs_run_in_our_own_python_without_its_surroundings() -> None:
    command = find_runtime().command
    assert command[1] == "-I"
    assert command[-2:] == ("-m", "worker_core.training")


def test_an_installed_app_without_a_runtime_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.frozen", True, raising=False)
    with pytest.raises(RuntimeMissing, match="Install"):
        find_runtime()


async def test_two_hundred_jobs_stay_within_the_budget_and_keep_what_is_needed(
    bench: Any, attempt: Callable[..., NewAttempt]
) -> None:
    paths, size, budget = bench.paths, 20_000, 20 * 20_000
    cache = BlobCache(paths.blobs, bench.journal, budget)

    def bring(content: bytes) -> str:
        data = content.ljust(size, b".")
        path = blob_path(paths.blobs, hashlib.sha256(data).hexdigest())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path.name

    await cache.make_room(size)
    pinned = bring(b"of a job that runs")
    await bench.journal.add_attempt(attempt(inputs=(Input(name="data", sha256=pinned, size=size),)))
    most = 0
    for number in range(200):
        await cache.make_room(size)
        bring(str(number).encode())
        most = max(most, sum(path.stat().st_size for path in paths.blobs.rglob("*") if path.is_file()))
    assert most <= budget * 1.05
    assert most > budget / 2
    assert holds_blob(paths.blobs, pinned, size)
    await cache.give_back(budget)
    left = [path.name for path in paths.blobs.glob("??/*")]
    assert left == [pinned]
