"""The session log: everything that happened in an attempt, line by line, whatever ends it."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker_core.training.files import JobIdentity
from worker_core.training.session_log import SessionLog
from worker_core.wire.events import CheckpointSaved, Log, Metric, Status

IDENTITY = JobIdentity("job_1", "att_1", 2)
WRITER = """
import sys
from pathlib import Path
from worker_core.training.files import JobIdentity
from worker_core.training.session_log import SessionLog
from worker_core.wire.events import Log
log = SessionLog(Path(sys.argv[1]), JobIdentity())
for number in range(1_000_000):
    log.add(Log(ts=1.0, stream="stoker", text=f"{number} " + "x" * 5000))
    print(number, flush=True)
"""


def line(text: str) -> Log:
    return Log(ts=1.0, stream="stoker", text=text)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_bytes().splitlines()]


def test_the_log_says_whose_it_is_and_holds_what_happened_in_order(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "results" / "log.jsonl", IDENTITY)
    log.add(line("one"))
    log.add(Metric(ts=2.0, step=5, values={"a": 1.5, "b": "NaN"}))
    log.add(CheckpointSaved(ts=3.0, step=5, sha256="0" * 64, size=7))
    log.close()
    first, *rest = read(log.path)
    assert {key: first[key] for key in ("t", "schema", "job_id", "attempt_id", "attempt")} == {
        "t": "opened",
        "schema": "stoker.session-log/1",
        "job_id": "job_1",
        "attempt_id": "att_1",
        "attempt": 2,
    }
    assert [(one["t"], one.get("step")) for one in rest] == [("l", None), ("m", 5), ("c", 5)]


def test_of_the_statuses_only_those_that_begin_a_phase_are_kept(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "log.jsonl", IDENTITY)
    for phase in ("training", "training", "training", "exporting"):
        log.add(Status(ts=1.0, phase=phase))
    log.close()
    assert [one["phase"] for one in read(log.path)[1:]] == ["training", "exporting"]


def test_a_writer_killed_in_the_middle_loses_at_most_the_event_it_was_writing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(300):
            assert writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        said = 300 + len([one for one in writer.stdout.read().split(b"\n")[:-1] if one])
        writer.wait(timeout=60)
    log = SessionLog(path, IDENTITY)
    log.add(line("after"))
    log.close()
    opened, *events, again, after = read(path)
    assert (opened["t"], again["t"], after["text"]) == ("opened", "opened", "after")
    assert [int(event["text"].split()[0]) for event in events] == list(range(len(events)))
    assert said <= len(events) <= said + 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400))
def test_a_log_cut_anywhere_goes_on_behind_its_last_whole_line(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "log.jsonl"
    log = SessionLog(path, IDENTITY)
    for number in range(5):
        log.add(line(f"{number} ü"))
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    log = SessionLog(path, IDENTITY)
    log.add(line("after"))
    log.close()
    kept = whole[:cut].count(b"\n")
    assert path.read_bytes().startswith(b"".join(whole.splitlines(keepends=True)[:kept]))
    assert [one["t"] for one in read(path)[kept:]] == ["opened", "l"]


def test_a_log_that_is_full_ends_and_says_so_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = SessionLog(tmp_path / "log.jsonl", IDENTITY, most_bytes=1_000)
    for number in range(100):
        log.add(line(f"{number}"))
    assert log.path.stat().st_size <= 1_000
    assert read(log.path)[-1]["t"] == "l"
    assert capsys.readouterr().err == "the session log log.jsonl ends here: it has reached 1,000 bytes\n"


def test_a_log_that_cannot_be_written_ends_and_the_job_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SessionLog(tmp_path / "log.jsonl", IDENTITY)

    def refuse(_file: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    log.add(line("one"))
    monkeypatch.undo()
    log.add(line("two"))
    assert len(read(log.path)) == 1
    assert "it cannot be written (No space left on device)" in capsys.readouterr().err
