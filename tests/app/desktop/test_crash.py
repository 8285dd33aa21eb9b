"""What the desktop keeps of a crash, and of its day: no secret, and no more than a bounded file."""

import errno
import logging
import sys
from pathlib import Path

import pytest

from app.desktop import crash
from app.desktop.crash import BoundedLog, CrashRecorder
from worker_core.machine.redaction import Redactor


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Redactor()
    known.add("token-of-the-channel")
    monkeypatch.setattr(crash, "KNOWN_SECRETS", known)
    monkeypatch.delenv("STOKER_DEBUG", raising=False)


def test_a_crash_is_kept_for_the_next_start_without_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.excepthook
    recorder = CrashRecorder(tmp_path)
    try:
        error = ValueError("refused token-of-the-channel")
        sys.excepthook(ValueError, error, None)
    finally:
        recorder.close()
    assert sys.excepthook is sys.__excepthook__
    sys.excepthook = before
    kept = (tmp_path / "desktop-crash.log").read_text()
    assert "refused [secret]" in kept
    assert "token-of" not in kept + capsys.readouterr().err
    again = CrashRecorder(tmp_path)
    again.close()
    sys.excepthook = before
    assert "refused [secret]" in again.previous


def test_the_log_of_the_desktop_is_bounded_and_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "MAX_LOG_BYTES", 2000)
    path = tmp_path / "desktop.log"
    handler = BoundedLog(path)
    for number in range(200):
        handler.emit(logging.makeLogRecord({"msg": f"line {number} token-of-the-channel"}))
    handler.close()
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < 2200
    assert "line 199 [secret]" in path.read_text()


def test_the_log_goes_on_after_a_disk_that_was_full_when_a_new_file_was_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crash, "MAX_LOG_BYTES", 10)
    handler = BoundedLog(tmp_path / "desktop.log")
    handler.emit(logging.makeLogRecord({"msg": "a first line that fills it"}))
    with monkeypatch.context() as full:
        full.setattr(Path, "replace", _no_space)
        handler.emit(logging.makeLogRecord({"msg": "lost"}))
    handler.emit(logging.makeLogRecord({"msg": "here again"}))
    handler.close()
    assert (tmp_path / "desktop.log").read_text() == "here again\n"
    assert "No space left" in capsys.readouterr().err


def _no_space(path: Path, target: Path) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
