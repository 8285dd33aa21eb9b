"""Computers are told apart where the system gives an id, and nothing is claimed where it gives none."""

from pathlib import Path

import pytest

from worker_core.core.enrollment import Enrollment
from worker_core.machine import machine_id as ids
from worker_core.machine.instance_lock import LockHeld
from worker_core.machine.machine_id import fingerprint, machine_id
from worker_core.machine.sole_use import SoleUse
from worker_core.machine.spawn import Finished

IOREG = b"""+-o J316sAP  <class IOPlatformExpertDevice>
  {
    "IOPlatformSerialNumber" = "C02XXXXXXXXX"
    "IOPlatformUUID" = "0B1C2D3E-4F50-6172-8394-A5B6C7D8E9F0"
  }
"""


def enrolled(machine: str) -> Enrollment:
    return Enrollment(
        coordinator="http://127.0.0.1:1",
        worker_id="wrk_1",
        worker_name="lathe",
        account="ada@example.org",
        approved_by="ada@example.org",
        thumbprint="t",
        jwks={"keys": []},
        credential_store="file",
        authorization_s=1.0,
        machine=machine,
    )


def test_a_fingerprint_tells_computers_and_workers_apart_and_shows_neither() -> None:
    one = fingerprint("computer-1", "wrk_1")
    assert len({one, fingerprint("computer-2", "wrk_1"), fingerprint("computer-1", "wrk_2")}) == 3
    assert "computer" not in one
    assert fingerprint("", "wrk_1") == ""


def test_a_home_is_foreign_only_where_both_computers_have_an_id() -> None:
    here = fingerprint("computer-1", "wrk_1")
    assert enrolled(here).is_of_another("computer-2")
    assert not enrolled(here).is_of_another("computer-1")
    assert not enrolled(here).is_of_another("")
    assert not enrolled("").is_of_another("computer-2")


def test_linux_reads_the_first_file_that_holds_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tmp_path / "missing", tmp_path / "unset", tmp_path / "dbus"
    files[1].write_text("uninitialized\n")
    files[2].write_text("0123456789abcdef\n")
    monkeypatch.setattr(ids, "_LINUX_FILES", files)
    monkeypatch.setattr(ids.sys, "platform", "linux")
    assert machine_id() == "0123456789abcdef"
    monkeypatch.setattr(ids, "_LINUX_FILES", files[:2])
    assert machine_id() == ""


def test_macos_asks_the_registry_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "run_briefly", lambda *_, **__: Finished(0, IOREG, b""))
    monkeypatch.setattr(ids.sys, "platform", "darwin")
    assert machine_id() == "0B1C2D3E-4F50-6172-8394-A5B6C7D8E9F0"
    monkeypatch.setattr(ids, "run_briefly", lambda *_, **__: Finished(None, b"", b""))
    assert machine_id() == ""


def test_a_credential_is_used_by_one_process_of_this_computer_at_a_time(tmp_path: Path) -> None:
    first, second, other = SoleUse("wrk_1", tmp_path), SoleUse("wrk_1", tmp_path), SoleUse("wrk_2", tmp_path)
    first.take()
    first.take()
    other.take()
    with pytest.raises(LockHeld):
        second.take()
    first.release()
    second.take()
    second.release()
    other.release()
    assert list(tmp_path.iterdir()) == []


def test_where_the_folder_cannot_be_used_nobody_is_kept_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    use = SoleUse("wrk_1", tmp_path / "file")
    use.take()
    use.release()
