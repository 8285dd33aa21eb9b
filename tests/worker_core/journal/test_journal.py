"""Attempts, uploads, endings, modes and facts: what was written is there after a restart."""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, CheckpointRow, JournalError, NewAttempt, UploadRow
from worker_core.wire.events import Log, Metric
from worker_core.wire.frames import Done, JobError
from worker_core.wire.work import Completion, Release

SHA = "a" * 64


def checkpoint(step: int, sha256: str) -> tuple[CheckpointRow, UploadRow]:
    upload = UploadRow(attempt_id="att_1", sha256=sha256, name=f"step-{step}", kind="checkpoint", size=10, step=step)
    return CheckpointRow(sha256=sha256, size=10, step=step, saved=1.0), upload


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
@pytest.mark.parametrize("before", [None, 0o644])
async def test_the_journal_is_for_its_owner_only(file: Path, before: int | None) -> None:
    if before is not None:
        await Journal.open(file, boot_id="one").close()
        await asyncio.to_thread(file.chmod, before)
    journal = Journal.open(file, boot_id="one")
    await journal.set_fact("a", "b")
    rights = {found.name: found.stat().st_mode & 0o777 for found in file.parent.glob("state.db*")}
    assert rights == dict.fromkeys(("state.db", "state.db-wal", "state.db-shm"), 0o600)
    await journal.close()


async def test_an_attempt_is_there_after_a_restart_with_all_that_happened(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    journal = Journal.open(file, boot_id="one", wall=lambda: 5.0)
    await journal.add_attempt(attempt())
    await journal.set_process("att_1", 42, 1.25)
    await journal.set_phase("att_1", "running")
    await journal.set_checkpoint("att_1", *checkpoint(7, SHA))
    done = Done(outcome="failed", error=JobError(failure="exception", message="m"))
    await journal.set_done("att_1", done)
    end = AttemptEnd(how="finished", outcome="failed", error=done.error)
    await journal.set_end("att_1", end)
    before = await journal.attempts()
    await journal.close()
    journal = Journal.open(file, boot_id="one")
    assert await journal.attempts() == before
    (row,) = before
    assert (row.pid, row.pid_started, row.phase, row.created) == (42, 1.25, "running", 5.0)
    assert (row.done, row.end) == (done, end)
    assert row.checkpoint is not None
    assert row.checkpoint.step == 7
    assert row.accepted == attempt().accepted
    await journal.close()


async def test_the_processes_of_an_earlier_boot_are_forgotten(file: Path, attempt: Callable[..., NewAttempt]) -> None:
    journal = Journal.open(file, boot_id="one")
    await journal.add_attempt(attempt())
    await journal.set_process("att_1", 42, 1.25)
    await journal.close()
    journal = Journal.open(file, boot_id="two")
    (row,) = await journal.attempts()
    assert (row.pid, row.pid_started) == (None, None)
    await journal.close()


async def test_a_forgotten_attempt_is_gone_but_known(journal: Journal, attempt: Callable[..., NewAttempt]) -> None:
    await journal.add_attempt(attempt())
    await journal.forget_attempt("att_1")
    assert await journal.attempts() == []
    assert await journal.attempt("att_1") is None
    assert await journal.knows_attempt("att_1")
    assert not await journal.knows_attempt("att_2")


async def test_only_the_newest_waiting_checkpoint_is_uploaded(
    journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    await journal.add_attempt(attempt())
    for step, letter in ((1, "1"), (2, "2")):
        await journal.set_checkpoint("att_1", *checkpoint(step, letter * 64))
    await journal.set_upload("att_1", "2" * 64, state="sending", artifact_id="art_1", upload_id="upl_1")
    await journal.set_checkpoint("att_1", *checkpoint(3, "3" * 64))
    found = await journal.uploads("att_1")
    assert [(upload.step, upload.state) for upload in found] == [(2, "sending"), (3, "waiting")]
    assert journal.outbox().bytes == 20
    await journal.set_upload("att_1", "2" * 64, state="done")
    (left,) = await journal.uploads()
    assert left.step == 3
    (done, _) = await journal.uploads("att_1", unfinished=False)
    assert (done.artifact_id, done.upload_id) == ("art_1", "upl_1")
    assert journal.outbox().bytes == 10


async def test_the_last_word_to_the_coordinator_survives_a_restart(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    journal = Journal.open(file, boot_id="one")
    await journal.add_attempt(attempt())
    assert await journal.completion("att_1") is None
    completion = Completion(epoch=1, outcome="succeeded", final_seq=9, artifacts=(SHA,))
    release = Release(epoch=1, reason="stopped", checkpoint=SHA, step=3)
    await journal.put_completion("att_1", completion)
    await journal.put_release("att_1", release)
    await journal.close()
    journal = Journal.open(file, boot_id="one")
    assert await journal.completion("att_1") == completion
    assert await journal.release("att_1") == release
    await journal.close()


async def test_mode_and_facts_survive_a_restart(file: Path) -> None:
    journal = Journal.open(file, boot_id="one")
    assert journal.local_mode() == "run"
    await journal.set_local_mode("drain")
    await journal.set_fact("pairing", "text")
    await journal.set_fact("old", "x")
    await journal.set_fact("old", None)
    with pytest.raises(ValueError, match="the limit"):
        await journal.set_fact("big", "x" * 100_000)
    await journal.close()
    journal = Journal.open(file, boot_id="one")
    assert (journal.local_mode(), journal.fact("pairing"), journal.fact("old")) == ("drain", "text", None)
    await journal.close()


async def test_a_wipe_leaves_nothing_to_read_but_the_mode(file: Path, attempt: Callable[..., NewAttempt]) -> None:
    journal = Journal.open(file, boot_id="one")
    await journal.set_local_mode("stop")
    await journal.set_fact("pairing", "the pinned key")
    await journal.add_attempt(attempt())
    journal.append("att_1", Log(ts=1.0, stream="stdout", text="a line of the job"))
    await journal.wipe()
    assert (await journal.attempts(), journal.outbox().events, journal.fact("pairing")) == ([], 0, None)
    assert journal.local_mode() == "stop"
    assert await journal.history_attempts() == []
    await journal.close()
    content = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"the pinned key" not in content
    assert b"a line of the job" not in content


async def test_metric_histories_outlive_delivery_and_restart(file: Path, attempt: Callable[..., NewAttempt]) -> None:
    journal = Journal.open(file, boot_id="one")
    await journal.add_attempt(attempt())
    for step in range(3000):
        journal.append("att_1", Metric(ts=1.0, step=step, values={"loss": float(step), "odd": "NaN"}))
    await journal.events_taken("att_1", 3000)
    await journal.forget_attempt("att_1")
    await journal.close()
    journal = Journal.open(file, boot_id="one")
    (listed,) = await journal.history_attempts()
    assert listed.names == ("loss", "odd")
    history = await journal.history("att_1", ("loss",), 100)
    assert list(history) == ["loss"]
    assert (min(history["loss"].lows), max(history["loss"].highs), history["loss"].count) == (0.0, 2999.0, 3000)
    assert len(history["loss"].lows) <= 100
    await journal.close()


async def test_only_the_histories_of_the_last_twenty_attempts_are_kept(
    journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    for number in range(23):
        await journal.add_attempt(attempt(f"att_{number:02}"))
        await journal.forget_attempt(f"att_{number:02}")
    listed = [one.attempt_id for one in await journal.history_attempts()]
    assert listed == [f"att_{number:02}" for number in reversed(range(3, 23))]
    assert not await journal.knows_attempt("att_00")


async def test_a_cancelled_caller_does_not_undo_what_it_wrote(
    journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    adding = asyncio.ensure_future(journal.add_attempt(attempt()))
    await asyncio.sleep(0)
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    assert await journal.knows_attempt("att_1")


def test_a_file_that_is_no_journal_is_named(file: Path) -> None:
    file.write_bytes(b"not a database" * 100)
    with pytest.raises(JournalError, match=str(file)):
        Journal.open(file, boot_id="one")


def test_a_journal_of_a_newer_version_is_left_alone(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(JournalError, match="newer"):
        Journal.open(file, boot_id="one")


async def test_a_full_disk_stops_writing_and_writing_goes_on_when_there_is_room(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    journal = Journal.open(file, boot_id="one")
    await journal.add_attempt(attempt())
    database = journal._database
    await database.run(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchall(), durable=False)
    late = journal.append("att_1", Log(ts=1.0, stream="stdout", text="x" * 100_000))
    with pytest.raises(JournalError, match="is full"):
        await journal.set_fact("big", "x" * 60_000)
    assert "is full" in journal.fault
    assert not late.committed.done()
    await database.run(lambda connection: connection.execute("PRAGMA max_page_count = 99999").fetchall(), durable=False)
    async with asyncio.timeout(10):
        await late.committed
    assert journal.fault == ""
    found = await journal.next_events("att_1")
    assert found is not None
    assert found.first_seq == 0
    await journal.close()


async def test_a_journal_on_a_full_disk_can_be_closed(file: Path, attempt: Callable[..., NewAttempt]) -> None:
    journal = Journal.open(file, boot_id="one")
    await journal.add_attempt(attempt())
    database = journal._database
    await database.run(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchall(), durable=False)
    journal.append("att_1", Log(ts=1.0, stream="stdout", text="x" * 60_000))
    with pytest.raises(JournalError, match="is full"):
        await journal.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("journal")]
    journal = Journal.open(file, boot_id="one")
    assert await journal.knows_attempt("att_1")
    await journal.close()
