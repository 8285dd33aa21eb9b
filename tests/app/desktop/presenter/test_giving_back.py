"""The time a person has the machine back is said as their clock shows it."""

from datetime import datetime

import pytest

from app.desktop.presenter.giving_back import CHOICE_IDS, choices, clock_time, cost, promise, until
from app.desktop.presenter.upcoming import upcoming
from worker_core.wire.status import AuthorizationShown, GivenBackShown, JobShown, WorkerStatus

pytestmark = pytest.mark.usefixtures("berlin")


def job(**facts: float) -> JobShown:
    return JobShown(id="job_1", attempt=1, epoch=1, kind="rl-session", name="a job", **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "end"),
    [
        (datetime(2026, 6, 1, 20, 15), datetime(2026, 6, 2, 8)),
        (datetime(2026, 6, 1, 2, 15), datetime(2026, 6, 1, 8)),
        (datetime(2026, 6, 1, 9), datetime(2026, 6, 2, 8)),
        (datetime(2026, 3, 28, 20), datetime(2026, 3, 29, 8)),  # the night in which summer time begins
        (datetime(2026, 10, 24, 20), datetime(2026, 10, 25, 8)),  # and in which it ends
    ],
)
def test_the_morning_is_eight_o_clock_as_clocks_show_it(now: datetime, end: datetime) -> None:
    assert datetime.fromtimestamp(until("morning", now) or 0.0) == end


def test_every_choice_has_words_and_an_end_that_lies_ahead() -> None:
    now = datetime(2026, 6, 1, 20, 15)
    assert tuple(choice.id for choice in choices(now)) == CHOICE_IDS
    for choice in choices(now):
        end = until(choice.id, now)
        assert (end is None) == (choice.id == "me")
        assert end is None or end > now.timestamp()
    assert choices(datetime(2026, 6, 1, 1))[3].label == "Until &08:00 today"


def test_the_cost_is_said_before_and_the_promise_after() -> None:
    assert cost(WorkerStatus(state="training", job=job(checkpoint_age_s=40.0))).endswith("loses at most 40 s of work")
    assert cost(WorkerStatus(state="available")) == "Nothing is running: nothing is lost"
    assert cost(WorkerStatus(state="training", job=job())) == "Saves a checkpoint first; there is none yet"
    now = datetime(2026, 6, 1, 20, 15)
    held = GivenBackShown(since=now.timestamp(), until=until("morning", now), freed=False)
    assert promise(held, now) == "Saving a checkpoint and freeing the GPU"
    held = GivenBackShown(since=now.timestamp(), until=until("morning", now), freed_s=3.2)
    assert promise(held, now) == "Freed in 3 s; yours until tomorrow 08:00"
    assert promise(GivenBackShown(since=now.timestamp()), now) == "The GPU is yours until you resume"


def test_a_moment_is_named_as_people_do() -> None:
    now = datetime(2026, 6, 1, 20, 15)
    assert clock_time(datetime(2026, 6, 1, 23, 5).timestamp(), now) == "23:05"
    assert clock_time(datetime(2026, 6, 2, 8).timestamp(), now) == "tomorrow 08:00"
    assert clock_time(datetime(2026, 6, 20, 8).timestamp(), now) == "20 Jun 08:00"
    assert clock_time(1e18, now) == "in more than a year"
    assert clock_time(float("nan"), now) == "in more than a year"


def test_what_comes_next_is_said_with_its_time() -> None:
    now = datetime(2026, 6, 1, 20, 15)
    running = WorkerStatus(state="training", job=job(eta_s=600.0))
    assert upcoming(running, now) == "Done at 20:25, if it goes on like this."
    assert upcoming(WorkerStatus(state="draining", job=job(eta_s=600.0)), now) == "Done at 20:25, then paused."
    held = GivenBackShown(since=now.timestamp(), until=until("morning", now))
    assert upcoming(WorkerStatus(state="paused", given_back=held), now) == "Takes jobs again tomorrow 08:00."
    ends = AuthorizationShown(expires_at="x", remaining_s=300.0, extend_while_healthy=False)
    assert upcoming(WorkerStatus(state="training", job=job(eta_s=600.0), authorization=ends), now) == (
        "The authorization ends in 5 min."
    )
    assert upcoming(WorkerStatus(state="available"), now) == ""
