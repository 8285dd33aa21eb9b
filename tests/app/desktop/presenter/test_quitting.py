"""Quit never ends a job unasked, and never ends a worker that something else started."""

import pytest

from app.desktop.presenter.quitting import QuitPlan, chosen, plan_quit, plan_unanswered
from app.desktop.presenter.situation import Link, Situation
from worker_core.wire.status import JobShown, ModesShown, WorkerStatus

JOB = JobShown(id="job_1", attempt=1, epoch=1, kind="rl-session", name="cartpole")


def situation(job: JobShown | None = None, started_by: str = "desktop", link: Link = Link.CONNECTED) -> Situation:
    state = "training" if job else "available"
    return Situation(link=link, status=WorkerStatus(state=state, job=job, started_by=started_by))


def test_a_running_job_is_asked_about() -> None:
    assert plan_quit(situation(JOB), None) == QuitPlan(ask="cartpole")


@pytest.mark.parametrize(("choice", "request_"), [("keep", None), ("drain", "drain"), ("stop", "checkpoint")])
def test_a_remembered_answer_is_used_without_asking(choice: str, request_: str | None) -> None:
    assert plan_quit(situation(JOB), choice) == QuitPlan(request=request_)  # type: ignore[arg-type]
    assert chosen(choice) == QuitPlan(request=request_)  # type: ignore[arg-type]


def test_an_idle_worker_ends_with_the_desktop_that_started_it() -> None:
    assert plan_quit(situation(), None) == QuitPlan(request="checkpoint")


@pytest.mark.parametrize("started_by", ["service", "terminal", ""])
def test_an_idle_worker_of_something_else_goes_on(started_by: str) -> None:
    assert plan_quit(situation(started_by=started_by), "stop") == QuitPlan()


@pytest.mark.parametrize("link", [link for link in Link if link is not Link.CONNECTED])
def test_a_worker_that_cannot_be_asked_is_left_alone(link: Link) -> None:
    assert plan_quit(situation(JOB, link=link), None) == QuitPlan()


def stopping(mode: ModesShown, started_by: str = "desktop") -> Situation:
    status = WorkerStatus(state="paused", job=JOB, mode=mode, started_by=started_by)
    return Situation(link=Link.CONNECTED, status=status)


@pytest.mark.parametrize("mode", [ModesShown(here="stop"), ModesShown(console="stop")])
def test_a_job_that_is_being_stopped_is_not_asked_about(mode: ModesShown) -> None:
    assert plan_quit(stopping(mode), "keep") == QuitPlan(request="checkpoint")
    assert plan_quit(stopping(mode, "service"), None) == QuitPlan()


def test_a_question_stands_while_its_job_runs_on() -> None:
    assert plan_unanswered(situation(JOB)) is None


def test_a_question_is_decided_by_stopping_its_job_and_else_by_its_default() -> None:
    assert plan_unanswered(stopping(ModesShown(here="stop"))) == QuitPlan(request="checkpoint")
    assert plan_unanswered(situation()) == QuitPlan()
    assert plan_unanswered(situation(JOB, link=Link.ENDED)) == QuitPlan()
