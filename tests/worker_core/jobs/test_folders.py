"""Folders that a hostile job filled are measured and removed, and no file of theirs leads astray or blocks."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from worker_core.jobs.folders import UNMEASURABLE, folder_size, open_plain, remove_folder

MIB = 1 << 20


def nest(folder: Path, name: str, depth: int) -> None:
    """Make folders inside each other, however long their path gets."""
    made = os.open(folder, os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=made)
        inner = os.open(name, os.O_DIRECTORY, dir_fd=made)
        os.close(made)
        made = inner
    os.close(made)


def test_the_bytes_on_the_disk_count_and_not_those_that_are_claimed(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "full").write_bytes(b"x" * MIB)
    for number in range(20):
        os.link(tmp_path / "inside" / "full", tmp_path / f"again-{number}")
    (tmp_path / "link").symlink_to("/usr")
    (tmp_path / "line\nbreak \udcff").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    assert MIB <= folder_size(tmp_path) < 2 * MIB


@pytest.mark.parametrize(("name", "depth", "measurable"), [("d", 1500, True), ("d" * 200, 60, False)])
def test_folders_within_folders_are_measured_or_told_and_removed(
    tmp_path: Path, name: str, depth: int, measurable: bool
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    nest(top, name, depth)
    assert (folder_size(top) < UNMEASURABLE) is measurable
    assert remove_folder(top) is None
    assert not top.exists()


def test_what_is_removed_takes_nothing_else_along(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_bytes(b"kept")
    top = tmp_path / "top"
    (top / "closed" / "deeper").mkdir(parents=True)
    (top / "link").symlink_to(kept)
    (top / "closed" / "deeper" / "link").symlink_to(kept / "file")
    os.link(kept / "file", top / "closed" / "again")
    os.mkfifo(top / "pipe")
    (top / "closed" / "line\nbreak").write_bytes(b"")
    (top / "closed").chmod(0)
    top.chmod(0)
    assert remove_folder(top) is None
    assert not top.exists()
    assert (kept / "file").read_bytes() == b"kept"


def test_what_cannot_be_removed_is_told_and_the_rest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "top"
    (top / "inside").mkdir(parents=True)
    (top / "inside" / "held").touch()
    (top / "free").touch()
    unlink = Path.unlink

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self.name == "held":
            raise OSError(16, "Device or resource busy")
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    reason = remove_folder(top)
    assert reason is not None
    assert reason.errno == 16
    assert [path.name for path in top.rglob("*")] == ["inside", "held"]
    monkeypatch.undo()
    assert remove_folder(top) is None
    assert remove_folder(top) is None


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/etc/hostname", path), os.mkdir])
def test_only_plain_files_are_opened_and_nothing_is_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "odd"
    make(path)
    refused = threading.Event()

    def attempt() -> None:
        with pytest.raises(OSError, match="odd"), open_plain(path):
            pass
        refused.set()

    threading.Thread(target=attempt, daemon=True).start()
    assert refused.wait(20)
