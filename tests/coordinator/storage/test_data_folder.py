"""The data folder: private, one server at a time."""

import os

import pytest

from coordinator.storage.data_folder import DataFolder, FolderInUse, UnusableFolder
from coordinator.storage.private_files import append_private, write_private


def test_a_second_holder_is_refused_and_told_who_holds_it(tmp_path):
    first = DataFolder.hold(tmp_path / "data")
    with pytest.raises(FolderInUse, match=f"process {os.getpid()}"):
        DataFolder.hold(tmp_path / "data")
    first.release()
    DataFolder.hold(tmp_path / "data").release()


def test_the_folder_is_private(tmp_path):
    folder = DataFolder.hold(tmp_path / "deep" / "data")
    assert folder.path.stat().st_mode & 0o077 == 0
    folder.release()


def test_a_folder_that_cannot_be_made_is_said_in_words(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnusableFolder, match="cannot use the data folder"):
        DataFolder.hold(tmp_path / "file" / "data")


def test_private_files_are_whole_and_for_their_owner_only(tmp_path):
    write_private(tmp_path / "key", b"one")
    write_private(tmp_path / "key", b"two")
    append_private(tmp_path / "log", b"first")
    append_private(tmp_path / "log", b"second")
    assert (tmp_path / "key").read_bytes() == b"two"
    assert (tmp_path / "log").read_bytes() == b"first\nsecond\n"
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "log"]
