"""Where a worker keeps its things."""

import tempfile
from pathlib import Path

import pytest

from worker_core.machine.paths import find_paths

LONG = "deeply/" * 20


def test_two_homes_are_two_workers(tmp_path: Path) -> None:
    one, other = find_paths(str(tmp_path / "one")), find_paths(str(tmp_path / "other"))
    assert one.identity != other.identity
    assert one.lock_file != other.lock_file


@pytest.mark.parametrize("temporary", ["/tmp", f"/tmp/{LONG}"])
def test_the_control_socket_has_a_path_the_system_allows(monkeypatch: pytest.MonkeyPatch, temporary: str) -> None:
    monkeypatch.setattr(tempfile, "tempdir", temporary)
    for home in ("/h", f"/h/{LONG}"):
        assert len(str(find_paths(home).control_socket).encode()) < 100
