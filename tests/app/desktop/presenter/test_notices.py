"""What is told: each thing once, at the right moment, and nothing that is old news or passes by itself."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.desktop.presenter.notices import (
    DAY_S,
    FORGET_S,
    MOST_KEPT,
    SETTLE_S,
    Level,
    Memory,
    Notice,
    Quiet,
    decide,
    due,
)
from worker_core.wire.status import (
    AuthorizationShown,
    EndedHow,
    EndedShown,
    GpuShown,
    JobShown,
    UpdateShown,
    WorkerShown,
    WorkerStatus,
)

NOW = 1_800_000_000.0
BORN = Memory(born=NOW - 30 * DAY_S)
WORKER = WorkerShown(id="wrk_1", name="den")


def status(state: str = "available", **facts: object) -> WorkerStatus:
    return WorkerStatus(state=state, worker=WORKER, **facts)  # type: ignore[arg-type]


def ended(number: int, outcome: EndedHow = "succeeded", at: float = NOW, **facts: str) -> EndedShown:
    names = {"attempt_id": f"att_{number}", "job_id": f"job_{number}", "name": f"job {number}"}
    return EndedShown(**(names | facts), attempt=1, outcome=outcome, at=at)


def authorization(remaining_s: float, *, extends: bool = False) -> AuthorizationShown:
    return AuthorizationShown(expires_at="2030-01-01", remaining_s=remaining_s, extend_while_healthy=extends)


def heads(seen: WorkerStatus, memory: Memory = BORN, quiet: Quiet | None = None, now: float = NOW) -> list[str]:
    return [notice.headline for notice in decide(memory, due(seen), quiet or Quiet(), now).show]


def test_a_job_is_told_when_it_is_done_or_failed_and_not_when_somebody_ended_it() -> None:
    assert heads(status(ended=(ended(1),))) == ["job 1 is done"]
    assert heads(status(ended=(ended(1, "failed", failure="numeric"),))) == ["job 1 failed"]
    others: tuple[EndedHow, ...] = ("canceled", "superseded", "released")
    for outcome in others:
        assert heads(status(ended=(ended(1, outcome),))) == []


def test_a_failure_says_why_and_what_helps() -> None:
    (notice,) = due(status(ended=(ended(1, "failed", failure="numeric", message="The loss is NaN"),)))
    assert notice.text.startswith("The loss is NaN. Try a lower")


def test_nothing_is_told_twice_whatever_holds_and_however_long() -> None:
    seen = status(ended=(ended(1),), authorization=authorization(3600))
    memory = BORN
    told: list[str] = []
    for turn in range(100):
        outcome = decide(memory, due(seen), Quiet(), NOW + turn * 3600)
        told += [notice.headline for notice in outcome.show]
        memory = replace(outcome.memory, waiting={})  # a restart of the tray between any two looks
    assert told == ["job 1 is done", "The authorization ends in 1 h"]


def test_what_ended_before_the_first_tray_or_long_ago_is_no_news() -> None:
    assert heads(status(ended=(ended(1, at=NOW - 60),)), Memory(born=NOW)) == []
    assert heads(status(ended=(ended(1, at=NOW - 2 * DAY_S),))) == []


def test_many_jobs_that_ended_unseen_are_one_notice() -> None:
    seen = status(ended=(ended(1), ended(2, "failed"), ended(3), ended(4)))
    outcome = decide(BORN, due(seen), Quiet(), NOW)
    assert [(notice.headline, notice.text) for notice in outcome.show] == [("4 jobs have ended", "3 done, 1 failed.")]
    assert heads(seen, outcome.memory) == []


@pytest.mark.parametrize(
    ("remaining_s", "extends", "reasons", "told"),
    [
        (25 * 3600, False, (), False),
        (23 * 3600, False, (), True),
        (23 * 3600, True, (), False),
        (23 * 3600, True, ("asks-for-renewal",), True),
        (1800, True, (), True),
    ],
)
def test_an_authorization_that_ends_within_a_day_is_told_unless_it_extends_itself(
    remaining_s: float, extends: bool, reasons: tuple[str, ...], told: bool
) -> None:
    found = due(status(authorization=authorization(remaining_s, extends=extends), reasons=reasons))
    assert [notice.actions[0] for notice in found] == (["renew"] if told else [])


def test_an_end_of_the_authorization_that_was_announced_is_told_again_when_it_came() -> None:
    outcome = decide(BORN, due(status(authorization=authorization(60))), Quiet(), NOW)
    assert heads(status("expired", authorization=authorization(0)), outcome.memory) == ["The authorization has expired"]


def test_an_update_waits_until_no_job_runs() -> None:
    update = UpdateShown(version="9.0")
    job = JobShown(id="job_1", attempt=1, epoch=1, kind="rl-session", name="a job")
    assert heads(status("training", job=job, update=update)) == []
    assert heads(status(update=update)) == ["Stoker 9.0 is available"]
    (required,) = due(status(update=UpdateShown(version="9.0", required=True)))
    assert required.important


def test_trouble_is_told_when_it_lasts_and_again_only_after_it_was_gone() -> None:
    seen = status("problem", reasons=("device-missing",))
    first = decide(BORN, due(seen), Quiet(), NOW)
    assert (first.show, first.look_again_s) == ((), SETTLE_S)
    later = decide(first.memory, due(seen), Quiet(), NOW + SETTLE_S)
    assert len(later.show) == 1
    flap = decide(later.memory, due(status()), Quiet(), NOW + 100)
    assert heads(seen, flap.memory, now=NOW + 101) == []
    gone = decide(later.memory, due(status()), Quiet(), NOW + SETTLE_S + FORGET_S + 1)
    waiting = decide(gone.memory, due(seen), Quiet(), NOW + 2000)
    assert len(decide(waiting.memory, due(seen), Quiet(), NOW + 2000 + SETTLE_S).show) == 1


def test_a_full_disk_and_a_gpu_in_quarantine_are_told_at_once() -> None:
    gpu = GpuShown(uuid="GPU-1", name="RTX 4090", held="gpu-quarantined")
    seen = status("problem", reasons=("gpu-quarantined", "disk-full"), gpus=(gpu,))
    assert heads(seen) == ["RTX 4090 gets no more jobs", "The disk is full"]


def test_after_a_start_or_a_sleep_trouble_has_time_to_pass() -> None:
    quiet = Quiet(until=NOW + 30)
    seen = status("problem", reasons=("disk-full",))
    first = decide(BORN, due(seen), quiet, NOW)
    assert (first.show, first.look_again_s) == ((), 30)
    assert heads(status(), first.memory, quiet, NOW + 10) == []


@pytest.mark.parametrize(("level", "told"), [("all", ["a", "b"]), ("important", ["b"]), ("off", list[str]())])
def test_the_level_a_person_chose_is_kept(level: Level, told: list[str]) -> None:
    found = (
        Notice(key="1", topic="1", headline="a", text="", important=False, at=NOW),
        Notice(key="2", topic="2", headline="b", text="", at=NOW),
    )
    outcome = decide(BORN, found, Quiet(level=level), NOW)
    assert [notice.headline for notice in outcome.show] == told
    assert decide(outcome.memory, found, Quiet(), NOW + 60).show == (), "what happened meanwhile is not told later"


KEYS = st.sampled_from(["trouble:a", "trouble:b", "job:1", "job:2", "job:3", "job:4"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sets(KEYS), st.floats(0, 400), st.booleans(), st.booleans()), max_size=40))
def test_in_every_history_a_thing_that_holds_is_told_once_and_the_memory_is_bounded(
    history: list[tuple[set[str], float, bool, bool]],
) -> None:
    memory, now, happened = Memory(born=NOW), NOW, set[str]()
    told: list[str] = []
    for keys, pause_s, is_quiet, restarts in history:
        now += pause_s
        found = [
            Notice(key=key, topic=key, headline=key, text="", at=None if key.startswith("trouble") else NOW)
            for key in sorted(keys)
        ]
        outcome = decide(memory, found, Quiet(until=now + 10 if is_quiet else 0.0), now)
        assert not (is_quiet and outcome.show)
        told += [notice.key for notice in outcome.show if notice.key.startswith("job")]
        happened |= {key for key in keys if key.startswith("job")}
        memory = replace(outcome.memory, waiting={}) if restarts else outcome.memory
        assert len(memory.told) <= MOST_KEPT
        assert (outcome.look_again_s is not None) == bool(outcome.memory.waiting)
    assert len(told) == len(set(told))
    assert set(told) <= happened
