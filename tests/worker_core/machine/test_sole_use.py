"""One process per credential on this computer."""

import logging

import pytest

from worker_core.machine import instance_lock, sole_use
from worker_core.machine.instance_lock import LockHeld, take_lock
from worker_core.machine.sole_use import SoleUse


def test_a_second_use_of_a_key_is_noticed_until_the_first_ends(tmp_path):
    first, second = (SoleUse("w_1", tmp_path / "in-use") for _ in range(2))
    other = SoleUse("w_2", tmp_path / "in-use")
    first.take()
    with pytest.raises(LockHeld):
        second.take()
    other.take()
    first.release()
    second.take()
    second.release()
    other.release()
    assert not list((tmp_path / "in-use").iterdir())


def test_who_opened_the_file_before_its_release_holds_no_lock_that_nobody_meets(tmp_path, monkeypatch):
    first, second, third = (SoleUse("w_1", tmp_path / "in-use") for _ in range(3))
    first.take()
    locks = instance_lock._try_lock

    def after_the_release(descriptor):
        first.release()  # between the opening of the file and its lock
        return locks(descriptor)

    monkeypatch.setattr(instance_lock, "_try_lock", after_the_release)
    second.take()
    monkeypatch.undo()
    with pytest.raises(LockHeld):
        third.take()
    second.release()


def test_a_file_that_never_stays_is_given_up(tmp_path, monkeypatch, caplog):
    def taken_and_gone(path):
        lock = take_lock(path)
        path.unlink()
        return lock

    monkeypatch.setattr(sole_use, "take_lock", taken_and_gone)
    with caplog.at_level(logging.INFO):
        SoleUse("w_1", tmp_path / "in-use").take()
    assert "is made anew all the time" in caplog.text


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_another_put_in_the_place_of_the_folder_is_not_used(tmp_path, caplog, kind):
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "in-use"
    elsewhere.mkdir(mode=0o755)
    if kind == "link":
        folder.symlink_to(elsewhere)
    else:
        folder.write_text("")
    use = SoleUse("w_1", folder)
    with caplog.at_level(logging.INFO):
        use.take()
    use.release()
    assert "is not a folder of this user: remove it" in caplog.text
    assert not list(elsewhere.iterdir())
    assert elsewhere.stat().st_mode & 0o777 == 0o755


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "in-use"
    folder.mkdir()
    monkeypatch.setattr(sole_use.os, "getuid", lambda: folder.stat().st_uid + 1)
    with caplog.at_level(logging.INFO):
        SoleUse("w_1", folder).take()
    assert "is not a folder of this user" in caplog.text
    assert not list(folder.iterdir())
