"""The facts of the status window are true or carry their age."""

from app.desktop.presenter.attempts import attempt_label, headline, no_values_words, progress_words
from app.desktop.presenter.dwell import Dwell
from app.desktop.presenter.facts import facts
from app.desktop.presenter.situation import Link, Situation
from worker_core.control.messages import AttemptShown
from worker_core.wire.status import (
    AuthorizationShown,
    GpuShown,
    JobShown,
    OutboxShown,
    WorkerShown,
    WorkerStatus,
)

JOB = JobShown(id="job_1", attempt=2, epoch=2, kind="rl-session", name="cartpole", attempt_id="att_2", progress=0.5)
STATUS = WorkerStatus(
    state="training",
    worker=WorkerShown(id="wrk_1", name="den"),
    coordinator="https://train.example.org",
    contact_age_s=3.0,
    authorization=AuthorizationShown(expires_at="", remaining_s=3600.0, extend_while_healthy=True),
    gpus=(GpuShown(uuid="GPU-1", name="RTX 4090", busy_pct=71.4, temperature_c=61.0),),
    outbox=OutboxShown(events=1200, bytes=2_000_000),
    credential_store="file",
    job=JOB,
)


def test_ages_grow_between_snapshots() -> None:
    shown = dict(facts(Situation(link=Link.CONNECTED, status=STATUS, age_s=60)))
    assert shown["Last contact"] == "1 min 3 s ago"
    assert shown["Authorization"] == "59 min left, extended while healthy"
    assert shown["Device"] == "RTX 4090, 71 % busy, 61 °C"
    assert shown["To be sent"] == "1,200 events, 1.9 MB"
    assert shown["Key"] == "in a private file"


def test_facts_of_a_lost_core_carry_their_age() -> None:
    assert dict(facts(Situation(link=Link.SILENT, status=STATUS, age_s=60)))["As of"] == "1 min ago"
    assert facts(Situation()) == ()


def test_an_authorization_that_ran_out_meanwhile_is_called_expired() -> None:
    assert dict(facts(Situation(link=Link.CONNECTED, status=STATUS, age_s=3601)))["Authorization"] == "expired"


def test_the_metrics_window_says_which_attempt_it_shows_and_why_it_is_empty() -> None:
    situation = Situation(link=Link.CONNECTED, status=STATUS)
    older = AttemptShown(attempt_id="att_1", job_id="job_1", job_name="cartpole", attempt=1, started=0.0)
    assert attempt_label(older, "att_1") == "cartpole, attempt 1 (running)"
    assert "1970" not in attempt_label(older, "att_2")
    assert headline(situation, None) == "cartpole"
    assert progress_words(situation, None) == "This attempt is not running."
    assert "50 %" in progress_words(situation, JOB)
    assert no_values_words(situation, "att_2", False, "") == "No value yet."
    assert no_values_words(Situation(link=Link.SILENT), "att_2", False, "") == "Not responding"
    idle = Situation(link=Link.CONNECTED, status=WorkerStatus(state="available"))
    assert no_values_words(idle, None, False, "") == "No job has run on this computer yet."


def test_a_picture_stays_a_second_but_a_problem_does_not_wait() -> None:
    dwell = Dwell()
    assert dwell.wait_s("available", 10.0) == 0
    assert dwell.show("available", 10.0)
    assert not dwell.show("available", 10.1)
    assert dwell.wait_s("paused", 10.25) == 0.75
    assert dwell.wait_s("problem", 10.2) == 0
    assert dwell.wait_s("paused", 11.0) == 0
