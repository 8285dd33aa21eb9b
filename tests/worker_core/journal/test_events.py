"""Events: numbered without a gap, committed in groups, delivered exactly once, in order."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from worker_core.journal import outbox, writer
from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalError, NewAttempt
from worker_core.wire.events import Dropped, Event, Gap, Log, Metric


def line(text: str) -> Log:
    return Log(ts=1.0, stream="stdout", text=text)


def metric(step: int) -> Metric:
    return Metric(ts=1.0, step=step, values={"loss": float(step)})


def texts(events: tuple[Event, ...]) -> list[str]:
    return [event.text for event in events if isinstance(event, Log)]


async def test_events_are_numbered_from_zero_and_come_back_in_order(
    journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    await journal.add_attempt(attempt())
    appended = [journal.append("att_1", line(str(number))) for number in range(100)]
    assert [one.seq for one in appended] == list(range(100))
    await appended[-1].committed
    first = await journal.next_events("att_1", max_events=30)
    assert first is not None
    assert (first.first_seq, texts(first.events)) == (0, [str(number) for number in range(30)])
    await journal.events_taken("att_1", 30)
    second = await journal.next_events("att_1")
    assert second is not None
    assert (second.first_seq, len(second.events)) == (30, 70)
    await journal.events_taken("att_1", 100)
    assert await journal.next_events("att_1") is None
    assert journal.outbox().events == 0
    assert journal.outbox().bytes == 0


async def test_a_slice_is_bounded_in_bytes_but_never_empty(
    journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    await journal.add_attempt(attempt())
    for _ in range(3):
        journal.append("att_1", line("x" * 1000))
    found = await journal.next_events("att_1", max_bytes=100)
    assert found is not None
    assert len(found.events) == 1


async def test_events_of_one_moment_share_a_commit(journal: Journal, attempt: Callable[..., NewAttempt]) -> None:
    await journal.add_attempt(attempt())
    one, other = journal.append("att_1", line("a")), journal.append("att_1", line("b"))
    assert one.committed is other.committed
    assert not one.committed.done()
    async with asyncio.timeout(5):
        await one.committed


async def test_an_event_is_never_in_the_file_before_an_earlier_one(
    file: Path, journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    await journal.add_attempt(attempt())
    first = journal.append("att_1", line("first"))
    # The attempt is known, so this transaction fails, and the event that went with it.
    failing = asyncio.ensure_future(journal.add_attempt(attempt()))
    await asyncio.sleep(0)
    second = journal.append("att_1", line("second"))
    await journal.set_phase("att_1", "running")
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT seq FROM event ORDER BY seq").fetchall() == [(0,), (1,)]
    assert first.committed.done()
    assert second.committed.done()
    with pytest.raises(JournalError):
        await failing


async def test_what_was_delivered_of_a_job_without_metrics_is_removed(
    file: Path, journal: Journal, attempt: Callable[..., NewAttempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SAVE_HISTORIES_S", 0.0)
    await journal.add_attempt(attempt())
    for _ in range(2):
        journal.append("att_1", line("x" * 1000))
        await journal.events_taken("att_1", journal.next_seq("att_1"))
        await asyncio.sleep(0.01)
    await journal.attempts()
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT count(*) FROM event").fetchone() == (0,)


async def test_a_repeated_or_late_answer_takes_nothing_back(
    journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    await journal.add_attempt(attempt())
    for number in range(10):
        journal.append("att_1", line(str(number)))
    await journal.events_taken("att_1", 8)
    await journal.events_taken("att_1", 3)
    found = await journal.next_events("att_1")
    assert found is not None
    assert found.first_seq == 8
    assert journal.outbox().events == 2


async def test_numbers_go_on_after_a_restart(file: Path, attempt: Callable[..., NewAttempt]) -> None:
    journal = Journal.open(file, boot_id="one")
    await journal.add_attempt(attempt())
    for number in range(5):
        journal.append("att_1", line(str(number)))
    await journal.events_taken("att_1", 2)
    await journal.close()
    journal = Journal.open(file, boot_id="two")
    assert journal.append("att_1", line("5")).seq == 5
    found = await journal.next_events("att_1")
    assert found is not None
    assert (found.probe, found.first_seq, texts(found.events)) == (False, 2, ["2", "3", "4", "5"])
    assert journal.outbox().events == 4
    await journal.close()


async def test_all_events_delivered_and_a_restart_keep_the_number(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    journal = Journal.open(file, boot_id="one")
    await journal.add_attempt(attempt())
    journal.append("att_1", line("a"))
    await journal.events_taken("att_1", 1)
    await journal.close()
    journal = Journal.open(file, boot_id="one")
    assert journal.next_seq("att_1") == 1
    await journal.close()


def copy_as_it_lies(file: Path) -> Path:
    copy = file.with_name("after-power-loss.db")
    for suffix in ("", "-wal"):
        copy.with_name(copy.name + suffix).write_bytes(file.with_name(file.name + suffix).read_bytes())
    return copy


async def lose_power(file: Path, attempt: NewAttempt, kept: int, taken: int) -> Journal:
    """Return the journal after a power cut that left ``kept`` events, of which the coordinator knew ``taken``."""
    journal = Journal.open(file, boot_id="one")
    await journal.add_attempt(attempt)
    for number in range(kept):
        journal.append("att_1", line(f"old {number}"))
    await journal.events_taken("att_1", taken)
    copy = copy_as_it_lies(file)
    await journal.close()
    return Journal.open(copy, boot_id="two")


async def test_after_a_power_cut_a_probe_comes_first_and_no_number_is_used_twice(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    # The coordinator has 0 to 6, the disk lost everything from 4 on.
    journal = await lose_power(file, attempt(), kept=4, taken=2)
    journal.append("att_1", line("new"))
    probe = await journal.next_events("att_1")
    assert probe is not None
    assert (probe.probe, probe.events) == (True, ())
    await journal.events_taken("att_1", 7)
    found = await journal.next_events("att_1")
    assert found is not None
    assert found.first_seq == 7
    assert isinstance(found.events[0], Gap)
    assert texts(found.events) == ["new"]
    assert journal.next_seq("att_1") == 9 == found.first_seq + len(found.events)
    await journal.close()


async def test_after_a_power_cut_that_lost_nothing_everything_is_delivered(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    journal = await lose_power(file, attempt(), kept=4, taken=2)
    await journal.events_taken("att_1", 2)
    found = await journal.next_events("att_1")
    assert found is not None
    assert (found.first_seq, texts(found.events)) == (2, ["old 2", "old 3"])
    assert isinstance(found.events[2], Gap)
    await journal.close()


async def test_a_refused_event_is_replaced_under_its_number(
    journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    await journal.add_attempt(attempt())
    for number in range(3):
        journal.append("att_1", line(str(number)))
    await journal.replace_event("att_1", 1, "bad-event")
    found = await journal.next_events("att_1")
    assert found is not None
    assert isinstance(found.events[1], Dropped)
    assert (texts(found.events), len(found.events)) == (["0", "2"], 3)


async def test_a_full_outbox_leaves_lines_out_first_then_metrics_and_says_so(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    journal = Journal.open(file, boot_id="one", outbox_limit_bytes=10_000)
    await journal.add_attempt(attempt())
    lines = [journal.append("att_1", line("x" * 500)).seq for _ in range(40)]
    assert None in lines
    metrics = [journal.append("att_1", metric(step)).seq for step in range(40)]
    assert metrics[0] is not None
    assert metrics[-1] is None
    await journal.events_taken("att_1", journal.next_seq("att_1"))
    journal.append("att_1", line("room again"))
    found = await journal.next_events("att_1")
    assert found is not None
    dropped = {event.what: event.count for event in found.events if isinstance(event, Dropped)}
    assert dropped == {"metrics": metrics.count(None)}
    history = (await journal.history("att_1"))["loss"]
    assert history.count == 40
    await journal.close()


async def test_an_event_too_large_for_a_batch_becomes_a_marker(
    journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    await journal.add_attempt(attempt())
    journal.append("att_1", Metric(ts=1.0, step=1, values={f"name {number}": 1.0 for number in range(10_000)}))
    found = await journal.next_events("att_1")
    assert found is not None
    assert isinstance(found.events[0], Dropped)


async def test_an_attempt_that_is_gone_takes_nothing_more(journal: Journal, attempt: Callable[..., NewAttempt]) -> None:
    await journal.add_attempt(attempt())
    late = journal.append("att_1", line("a"))
    await journal.forget_attempt("att_1")
    assert journal.append("att_1", line("b")).seq is None
    await late.committed
    assert await journal.next_events("att_1") is None


async def test_appending_never_waits_for_the_disk(journal: Journal, attempt: Callable[..., NewAttempt]) -> None:
    await journal.add_attempt(attempt())
    loop = asyncio.get_running_loop()
    slowest = 0.0
    for number in range(2000):
        began = loop.time()
        journal.append("att_1", metric(number))
        slowest = max(slowest, loop.time() - began)
        if number % 100 == 0:
            await asyncio.sleep(0)
    assert slowest < 0.2


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
async def test_numbers_that_are_none_are_kept(journal: Journal, attempt: Callable[..., NewAttempt], value: str) -> None:
    await journal.add_attempt(attempt())
    event = Metric(ts=1.0, step=1, values={"loss": value, "other": 1.0})  # pyright: ignore[reportArgumentType]
    journal.append("att_1", event)
    found = await journal.next_events("att_1")
    assert found is not None
    assert found.events == (event,)


async def test_a_slow_disk_is_noticed_while_events_wait_for_it(
    journal: Journal, attempt: Callable[..., NewAttempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal.add_attempt(attempt())
    assert journal.stalled_s == 0.0
    slow = threading.Event()
    honest = outbox.insert_events

    def insert(*arguments: Any) -> None:
        slow.wait(10.0)
        honest(*arguments)

    monkeypatch.setattr(outbox, "insert_events", insert)
    waiting = journal.append("att_1", line("slow"))
    await asyncio.sleep(0.5)
    assert not waiting.committed.done()
    assert journal.stalled_s > 0.1
    assert journal.fault == ""
    slow.set()
    await waiting.committed
    assert journal.stalled_s == 0.0


async def test_what_the_coordinator_refuses_is_set_aside_by_name_and_the_list_is_bounded(
    journal: Journal, attempt: Callable[..., NewAttempt]
) -> None:
    await journal.add_attempt(attempt())
    journal.append("att_1", metric(7))
    await journal.replace_event("att_1", 0, "bad-event")
    (item,) = await journal.set_aside_items()
    assert (item.what, item.reason) == ("event 0: metrics loss of step 7", "bad-event")
    for number in range(150):
        await journal.set_aside("att_1", f"thing {number}", "too-large")
    items = await journal.set_aside_items()
    assert (len(items), items[0].what) == (100, "thing 149")
    await journal.replace_event("att_1", 99, "there is no such event")
    assert len(await journal.set_aside_items()) == 100
