"""The core's own log is bounded, holds no secret, and never harms the core, whatever becomes of its file."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker_core.core import logs
from worker_core.core.logs import LogFile, bound_log, close_logs, open_logs
from worker_core.machine.paths import Paths, find_paths
from worker_core.machine.redaction import Redactor

log = logging.getLogger("worker_core.test_logs")


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paths]:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers.clear()
    monkeypatch.setattr(logging, "raiseExceptions", True)
    yield find_paths(str(tmp_path))
    close_logs()
    root.setLevel(level)
    root.handlers[:] = handlers


def test_the_log_takes_six_megabytes_at_most(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 10_000)
    open_logs(paths, "info", verbose=False)
    for number in range(2000):
        log.info("line %d", number)
    sizes = [path.stat().st_size for path in paths.logs.iterdir()]
    assert len(sizes) == 3
    assert sum(sizes) <= 3 * 10_000
    assert (paths.logs / "core.log").read_text().endswith("line 1999\n")


def test_a_log_that_cannot_be_written_loses_lines_says_so_and_goes_on(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    open_logs(paths, "info", verbose=False)
    log.info("before")
    file = next(handler for handler in logging.getLogger().handlers if isinstance(handler, LogFile))
    file.close()
    kept = paths.logs.rename(paths.logs.with_name("away"))
    paths.logs.write_text("something lies in the place of the folder")
    for number in range(5):
        log.info("lost %d", number)
    assert "Traceback" not in capsys.readouterr().err
    paths.logs.unlink()
    kept.rename(paths.logs)
    log.info("after")
    text = (paths.logs / "core.log").read_text()
    assert "before" in text
    assert "5 lines could not be written here" in text
    assert text.endswith("after\n")
    assert "lost 3" not in text


def test_a_file_that_takes_nothing_raises_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "core.log"
    if Path("/dev/full").exists():
        path.symlink_to("/dev/full")  # opens, and says that there is no space left at each write
    else:
        path.mkdir()
    handler = LogFile(path)
    for number in range(3):
        handler.emit(logging.makeLogRecord({"msg": f"line {number}", "levelno": 20, "levelname": "INFO"}))
    assert handler.lost == 3
    handler.close()
    assert capsys.readouterr().err == ""


def test_a_home_without_a_log_folder_costs_the_file_not_the_worker(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    paths.logs.parent.mkdir(exist_ok=True)
    paths.logs.write_text("not a folder")
    open_logs(paths, "info", verbose=False)
    log.info("still here")
    close_logs()
    said = capsys.readouterr().err
    assert "there is no log file" in said
    assert "still here" in said


def test_no_secret_reaches_the_log_or_the_terminal(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets = Redactor()
    secrets.add("correct-horse-battery")
    monkeypatch.setattr(logs, "KNOWN_SECRETS", secrets)
    open_logs(paths, "info", verbose=True)
    try:
        raise ValueError("the password is correct-horse-battery")
    except ValueError:
        log.exception("refused %s", "correct-horse-battery")
    crash = threading.Thread(target=lambda: int("correct-horse-battery"))
    crash.start()
    crash.join()
    close_logs()
    for text in ((paths.logs / "core.log").read_text(), capsys.readouterr().err):
        assert "correct-horse" not in text
        assert text.count("[secret]") >= 3
        assert "an error nobody handled" in text


def test_the_log_of_a_child_is_cut_while_the_child_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHILD_LOG_BYTES", 1000)
    path = tmp_path / "coordinator.log"
    bound_log(path)
    with path.open("ab", buffering=0) as child:
        child.write(b"old line\n" * 200)
        bound_log(path)
        child.write(b"new line\n")
        bound_log(path)
    assert path.read_bytes() == b"new line\n"
    assert path.with_name("coordinator.log.1").read_bytes() == b"old line\n" * 200


def test_a_log_that_cannot_be_cut_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHILD_LOG_BYTES", 1)
    in_the_way = tmp_path / "coordinator.log"
    in_the_way.mkdir()
    (in_the_way / "something").write_text("x")
    bound_log(in_the_way)
    assert in_the_way.is_dir()


MANY_LINES = """
import logging, sys
from worker_core.core.logs import close_logs, open_logs
from worker_core.machine.paths import find_paths
open_logs(find_paths(sys.argv[1]), "info", verbose=False)
for number in range(4000):
    logging.getLogger().info("line %d %s", number, "x" * 80)
print("went on", flush=True)
close_logs()
"""


def test_a_terminal_that_nobody_reads_holds_up_neither_the_core_nor_its_end(paths: Paths) -> None:
    command = [sys.executable, "-c", MANY_LINES, str(paths.logs.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"went on\n"
        assert process.wait(20) == 0
    assert "line 3999" in (paths.logs / "core.log").read_text()


def test_lines_that_a_terminal_does_not_take_are_counted_and_the_next_are_shown(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as held_up, open(reading, encoding="utf-8") as person:
        monkeypatch.setattr(sys, "stderr", held_up)
        open_logs(paths, "info", verbose=False)
        for number in range(4000):
            log.info("line %d %s", number, "x" * 80)
        seen = [person.readline() for _ in range(1200)]  # more than a pipe holds
        log.info("after")
        while "after" not in seen[-1]:
            seen.append(person.readline())
        close_logs()
    (counted,) = [int(line.split()[0]) for line in seen if "could not be shown here" in line]
    assert len(seen) - 2 + counted == 4000
