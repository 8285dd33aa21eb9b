"""Over its budget the outbox gives up old lines, then old metrics, never a checkpoint, and renumbers nothing."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from worker_core.journal.budget import Budget, budget_bytes
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, NewAttempt
from worker_core.journal.thinning import Row, find_runs
from worker_core.wire.codec import encode
from worker_core.wire.events import CheckpointSaved, Dropped, Event, Log, Metric, Status, seqs_of

LIMIT = 400_000


def line(text: str) -> Log:
    return Log(ts=1.0, stream="stdout", text=text)


def metric(step: int) -> Metric:
    return Metric(ts=1.0, step=step, values={"loss": float(step)})


def checkpoint(step: int) -> CheckpointSaved:
    return CheckpointSaved(ts=1.0, step=step, sha256="0" * 64, size=1)


async def all_events(journal: Journal) -> list[Event]:
    """End the attempt, deliver everything, and return it as the coordinator saw it."""
    await journal.set_end("att_1", AttemptEnd(how="stopped"))
    seen: list[Event] = []
    expected = 0
    while (found := await journal.next_events("att_1")) is not None:
        assert found.first_seq == expected
        expected = found.seq_of(len(found.events))
        seen += found.events
        await journal.events_taken("att_1", expected)
    assert expected == journal.next_seq("att_1")
    return seen


async def settle(journal: Journal) -> None:
    """Let the commit and the thinning that follows it happen."""
    await journal.set_phase("att_1", "running")
    give_up = time.monotonic() + 2.0
    while journal.used_bytes() > journal.budget_bytes and time.monotonic() < give_up:
        await journal.attempts()


async def open_full(
    file: Path, attempt: NewAttempt, events: Sequence[Event], limit: int = LIMIT
) -> tuple[Journal, list[Event]]:
    journal = Journal.open(file, boot_id="one", outbox_limit_bytes=limit)
    await journal.add_attempt(attempt)
    taken: list[Event] = []
    for event in events:
        if journal.append("att_1", event).seq is not None:
            taken.append(event)
        if len(taken) % 100 == 0:
            await settle(journal)
    await settle(journal)
    return journal, taken


async def test_old_lines_go_first_and_every_metric_and_checkpoint_stays(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    events: list[Event] = []
    for number in range(1500):
        events += [line(f"{number} " + "x" * 300)] * 2 + [metric(number)] * (number % 4 == 0)
        events += [checkpoint(number)] * (number % 100 == 0)
    journal, _ = await open_full(file, attempt(), events)
    assert journal.crowded
    assert journal.used_bytes() <= LIMIT
    seen = await all_events(journal)
    assert [event for event in seen if isinstance(event, Metric)] == [metric(step) for step in range(0, 1500, 4)]
    assert sum(isinstance(event, CheckpointSaved) for event in seen) == 15
    lines = [event.text for event in seen if isinstance(event, Log)]
    assert lines[0].startswith("0 ")
    assert lines[-1].startswith("1499 ")
    dropped = [event for event in seen if isinstance(event, Dropped)]
    assert {event.what for event in dropped} == {"log lines"}
    assert len(lines) + sum(event.count for event in dropped) == 3000
    assert not journal.crowded
    await journal.close()


async def test_metrics_are_thinned_when_lines_do_not_free_enough_and_their_history_stays(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    journal, _ = await open_full(file, attempt(), [metric(step) for step in range(6000)])
    assert (await journal.history("att_1"))["loss"].count == 6000
    assert journal.used_bytes() <= LIMIT * 1.1
    seen = await all_events(journal)
    steps = [event.step for event in seen if isinstance(event, Metric)]
    assert steps == sorted(set(steps))
    assert steps[-1] == 5999
    dropped = sum(event.count for event in seen if isinstance(event, Dropped) and event.what == "metrics")
    assert len(steps) + dropped == 6000
    await journal.close()


async def test_the_numbers_are_the_same_after_a_restart(file: Path, attempt: Callable[..., NewAttempt]) -> None:
    journal, taken = await open_full(file, attempt(), [line("x" * 400) for _ in range(1500)])
    await journal.close()
    journal = Journal.open(file, boot_id="one", outbox_limit_bytes=LIMIT)
    assert journal.next_seq("att_1") >= len(taken)
    seen = await all_events(journal)
    lines = sum(isinstance(event, Log) for event in seen)
    assert lines + sum(event.count for event in seen if isinstance(event, Dropped)) == 1500
    await journal.close()


async def test_a_marker_of_which_the_coordinator_took_a_part_as_events_is_shortened(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    journal = Journal.open(file, boot_id="one", outbox_limit_bytes=LIMIT)
    await journal.add_attempt(attempt())
    for _ in range(900):
        journal.append("att_1", line("x" * 500))
    await settle(journal)
    thinned = await journal.next_events("att_1", max_events=1000)
    assert thinned is not None
    place, marker = next((index, event) for index, event in enumerate(thinned.events) if isinstance(event, Dropped))
    await journal.events_taken("att_1", thinned.seq_of(place) + 5)
    rest = await journal.next_events("att_1", max_events=1000)
    assert rest is not None
    assert rest.first_seq == thinned.seq_of(place) + 5
    assert rest.seq_of(len(rest.events)) == journal.next_seq("att_1")
    shortened = rest.events[0]
    assert isinstance(shortened, Dropped)
    assert (shortened.count, shortened.seqs) == (marker.count - 5, marker.seqs - 5)
    await journal.close()


EVENTS = st.one_of(
    st.builds(line, st.text("abc", max_size=300)),
    st.builds(metric, st.integers(0, 9)),
    st.builds(checkpoint, st.integers(0, 9)),
    st.builds(Status, ts=st.just(1.0), phase=st.just("training"), step=st.integers(0, 9)),
    st.builds(Dropped, ts=st.just(1.0), what=st.just("log lines"), count=st.integers(1, 9), reason=st.just("many")),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(EVENTS, max_size=60), st.sampled_from(["logs", "metrics"]))
def test_a_run_keeps_every_number_and_every_count_and_only_shrinks(events: list[Event], level: str) -> None:
    rows = [Row(seq, seqs_of(event), len(encode(event)), event) for seq, event in enumerate(events)]
    for run in find_runs(rows, level):  # pyright: ignore[reportArgumentType]
        gone = [row.event for row in rows if run.first <= row.seq < run.end]
        assert not any(isinstance(event, CheckpointSaved) for event in gone)
        assert level == "metrics" or all(isinstance(event, Log | Dropped) for event in gone)
        markers = run.markers()
        assert [marker.seq for marker in markers] == [
            run.first + sum(other.span for other in markers[:number]) for number in range(len(markers))
        ]
        assert sum(marker.span for marker in markers) == run.end - run.first
        assert sum(run.counts.values()) == sum(event.count if isinstance(event, Dropped) else 1 for event in gone)
        assert sum(len(marker.body) for marker in markers) < run.size


async def test_even_notes_of_checkpoints_cannot_fill_the_disk(file: Path, attempt: Callable[..., NewAttempt]) -> None:
    journal = Journal.open(file, boot_id="one", outbox_limit_bytes=LIMIT)
    await journal.add_attempt(attempt())
    for step in range(9000):
        journal.append("att_1", checkpoint(step))
    assert journal.used_bytes() < 2 * LIMIT + 400
    seen = await all_events(journal)
    dropped = sum(event.count for event in seen if isinstance(event, Dropped))
    assert sum(isinstance(event, CheckpointSaved) for event in seen) + dropped == 9000
    await journal.close()


def test_the_budget_is_a_twentieth_of_a_small_disk() -> None:
    assert budget_bytes(256 << 20, free_bytes=1 << 40, used_bytes=0) == 256 << 20
    assert budget_bytes(256 << 20, free_bytes=64 << 20, used_bytes=0) == int((64 << 20) * 0.05)
    assert budget_bytes(256 << 20, free_bytes=0, used_bytes=1 << 20) == int((1 << 20) * 0.05)


def test_an_outbox_over_its_budget_counts_as_crowded_until_it_is_well_below() -> None:
    budget = Budget(1000)
    seen: list[bool] = []
    for used in (900, 1001, 900, 750, 690, 900):
        budget.note(used)
        seen.append(budget.crowded)
    assert seen == [False, True, True, True, False, False]


async def test_what_went_out_once_is_never_thinned_since_it_may_have_arrived(
    file: Path, attempt: Callable[..., NewAttempt]
) -> None:
    journal = Journal.open(file, boot_id="one", outbox_limit_bytes=LIMIT)
    await journal.add_attempt(attempt())
    for number in range(500):
        journal.append("att_1", line(f"{number} " + "x" * 300))
    sent = await journal.next_events("att_1", max_events=400)
    assert sent is not None
    for number in range(4000):
        journal.append("att_1", line(f"later {number} " + "x" * 300))
        if number % 100 == 0:
            await settle(journal)
    await settle(journal)
    again = await journal.next_events("att_1", max_events=400)
    assert again == sent
    assert any(isinstance(event, Dropped) for event in await all_events(journal))
    await journal.close()
