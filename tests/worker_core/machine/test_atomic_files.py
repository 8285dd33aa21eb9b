"""Files that are whole or unchanged."""

from pathlib import Path

import pytest

from worker_core.machine.atomic_files import private_folder, write_file


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    write_file(path, b"one")
    write_file(path, b"two", private=True)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "inside").touch()
    with pytest.raises(OSError, match="folder"):
        write_file(path, b"new")
    assert list(tmp_path.iterdir()) == [path]


def test_a_private_folder_is_closed_to_others_even_if_it_was_open(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    assert private_folder(folder).stat().st_mode & 0o777 == 0o700
