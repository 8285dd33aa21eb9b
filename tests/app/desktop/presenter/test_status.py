"""Every state has its picture and words that a person can act on."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.desktop.presenter.situation import Link, Situation
from app.desktop.presenter.status import ICON_KEYS, show
from worker_core.wire.status import JobShown, ModesShown, PairingShown, WorkerShown, WorkerStatus
from worker_core.wire.vocabulary import WorkerState

ICON_OF: dict[WorkerState, str] = {
    "unpaired": "hollow",
    "pairing": "hollow",
    "connecting": "dotted",
    "available": "available",
    "training": "training",
    "draining": "draining",
    "paused": "paused",
    "offline": "offline",
    "problem": "problem",
    "expired": "problem",
    "revoked": "problem",
}


def status(state: str, **facts: object) -> WorkerStatus:
    known: dict[str, object] = {
        "worker": WorkerShown(id="wrk_1", name="den"),
        "coordinator": "https://train.example.org",
        "contact_age_s": 200.0,
    }
    return WorkerStatus(state=state, **(known | facts))  # type: ignore[arg-type]


def connected(state: str, **facts: object) -> Situation:
    return Situation(link=Link.CONNECTED, status=status(state, **facts))


JOB = JobShown(
    id="job_1", attempt=1, epoch=1, kind="rl-session", name="cartpole", step=1200, progress=0.999, eta_s=200.0
)


@pytest.mark.parametrize(("state", "icon"), ICON_OF.items())
def test_each_state_has_its_picture_and_says_something(state: str, icon: str) -> None:
    shown = show(connected(state))
    assert shown.icon == icon
    assert shown.headline
    assert shown.detail.endswith(".")


def test_a_state_of_a_later_version_is_called_unknown() -> None:
    shown = show(connected("hibernating"))
    assert shown.headline == "State unknown"
    assert "hibernating" in shown.detail


def test_a_job_is_not_called_done_before_it_is() -> None:
    shown = show(connected("training", job=JOB))
    assert shown.headline == "Training cartpole, 99 %"
    assert "1,200" in shown.detail
    assert "3 min 20 s left" in shown.detail


def test_training_without_contact_says_that_training_goes_on_and_for_how_long() -> None:
    shown = show(connected("training", job=JOB, reasons=("coordinator-unreachable",)))
    assert shown.icon == "training"
    assert "No contact with train.example.org for 3 min 20 s; training goes on." in shown.detail


@pytest.mark.parametrize(
    ("modes", "words"),
    [
        (ModesShown(here="drain"), "Drained on this computer."),
        (ModesShown(console="stop"), "Stopped in the console."),
        (ModesShown(here="stop", console="drain"), "Stopped on this computer. Drained in the console."),
    ],
)
def test_a_pause_says_who_asked_for_it(modes: ModesShown, words: str) -> None:
    assert show(connected("paused", mode=modes, reasons=("drained",))).detail == words


def test_a_code_is_shown_with_its_time() -> None:
    pairing = PairingShown(
        user_code="BCDF-GHJK",
        verification_uri="https://train.example.org/pair",
        fingerprint="amber canyon violet harbor",
        expires_in_s=545,
        coordinator="https://train.example.org",
        email="ada@example.org",
    )
    assert "BCDF-GHJK, 9:05 left" in show(connected("pairing", pairing=pairing)).detail


@pytest.mark.parametrize(
    ("link", "headline"),
    [
        (Link.STARTING, "Starting"),
        (Link.SILENT, "Not responding"),
        (Link.ENDED, "Not running"),
        (Link.FAILED, "The worker did not start"),
        (Link.INCOMPATIBLE, "Versions differ"),
    ],
)
def test_without_the_core_no_old_state_is_passed_off_as_the_present(link: Link, headline: str) -> None:
    shown = show(Situation(link=link, detail="Why.", status=status("training", job=JOB), age_s=70))
    assert shown.headline == headline
    assert "cartpole" not in shown.tooltip


def test_a_core_that_fell_silent_is_shown_with_the_age_of_its_last_word() -> None:
    assert "1 min 10 s ago" in show(Situation(link=Link.SILENT, status=status("available"), age_s=70)).detail


@given(
    state=st.text(max_size=30),
    reasons=st.lists(st.text(max_size=40), max_size=4),
    progress=st.floats(allow_nan=False, allow_infinity=False),
    eta=st.none() | st.floats(),
    contact=st.none() | st.floats(min_value=-1e6, max_value=1e12),
)
def test_no_snapshot_breaks_the_tray(
    state: str, reasons: list[str], progress: float, eta: float | None, contact: float | None
) -> None:
    job = JobShown(id="job_1", attempt=1, epoch=1, kind="k", name="", progress=progress, eta_s=eta)
    for known in (state, *ICON_OF):
        shown = show(connected(known, reasons=tuple(reasons), job=job, contact_age_s=contact))
        assert shown.icon in ICON_KEYS
        assert shown.headline


def test_times_run_on_between_snapshots() -> None:
    code = PairingShown(
        user_code="BCDF-GHJK", verification_uri="", fingerprint="", expires_in_s=900.0, coordinator="", email=""
    )
    asked = Situation(link=Link.CONNECTED, status=status("pairing", pairing=code), age_s=90)
    assert "13:30 left" in show(asked).detail
    gone = Situation(link=Link.CONNECTED, status=status("offline"), age_s=100)
    assert "for 5 min" in show(gone).detail
    busy = Situation(
        link=Link.CONNECTED, status=status("training", job=msgspec.structs.replace(JOB, eta_s=70.0)), age_s=30
    )
    assert "40 s left" in show(busy).detail
