"""What the console says is plain, exact and never by colour alone."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.console import words
from coordinator.console.loglines import CHUNK_LINES, chunks, clean_text
from coordinator.console.pages import local_path
from coordinator.queue.records import LogLine
from worker_core.wire.client import WorkerView
from worker_core.wire.pairing import Gpu, Host
from worker_core.wire.session import Authorization
from worker_core.wire.vocabulary import Mode, WorkerState


def worker(name: str, state: WorkerState = "available", **changes: object) -> WorkerView:
    fields: dict[str, object] = {
        "id": f"wrk_{name}",
        "name": name,
        "state": state,
        "reasons": (),
        "console_mode": "run",
        "local_mode": "run",
        "mode_by": "",
        "mode_seen": True,
        "mode_since_s": None,
        "contact_age_s": 1.0,
        "authorization": Authorization(expires_at="2027-01-01T00:00:00Z", remaining_s=1.0, extend_while_healthy=False),
        "job_scopes": ("any",),
        "host": Host(os="Linux", arch="x86_64", hostname=name),
        "version": "0.1.0",
        "credential_store": "file",
        "job": None,
        "rev": 1,
        **changes,
    }
    return WorkerView(**fields)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1e-5, "1.000e−5"),
        (-0.00012345, "−1.234e−4"),
        (0.0312, "0.0312"),
        (231.449, "231.4"),
        (-200.0, "−200"),
        (12345.6, "12,346"),
        (2.5e7, "2.500e7"),
        (0, "0"),
        ("NaN", "NaN"),
        (math.inf, "∞"),
        ("-Infinity", "−∞"),
        (None, "–"),
    ],
)
def test_a_number_is_never_shown_as_another(value: float | str | None, said: str) -> None:
    assert words.number_words(value) == said


@settings(deadline=None)
@given(st.floats(min_value=-1e300, max_value=1e300))
def test_four_digits_are_kept_of_every_number(value: float) -> None:
    said = words.number_words(value).replace("−", "-").replace(",", "")
    assert float(said) == pytest.approx(value, rel=6e-4, abs=0)


def test_every_state_has_an_icon_and_a_word_of_its_own() -> None:
    shown = [
        words.worker_status(state) for state in ("available", "training", "draining", "paused", "offline", "problem")
    ]
    assert len({state.icon for state in shown}) == len({state.word for state in shown}) == 6


def test_workers_that_need_a_person_stand_first() -> None:
    listed = words.by_attention([worker("b"), worker("a", "training"), worker("z", "problem"), worker("c", "expired")])
    assert [one.name for one in listed] == ["z", "c", "a", "b"]


@pytest.mark.parametrize(
    ("mode", "age_s", "said"),
    [
        ("drain", 12.0, "Drain requested 12 s ago, worker has not confirmed"),
        ("stop", 75.0, "Stop requested 1 min 15 s ago. No answer; it will stop when it reconnects"),
        ("run", None, "Resume requested, worker has not confirmed"),
    ],
)
def test_a_wish_the_worker_has_not_seen_is_told_apart_from_what_it_does(mode: Mode, age_s: float, said: str) -> None:
    state: WorkerState = "paused" if mode == "run" else "training"
    assert words.unconfirmed(worker("a", state, console_mode=mode, mode_seen=False, mode_since_s=age_s)) == said
    assert words.unconfirmed(worker("a", console_mode=mode)) is None


def test_a_worker_that_does_what_was_asked_is_not_said_to_hesitate() -> None:
    assert words.unconfirmed(worker("a", "training", mode_seen=False)) is None
    assert words.unconfirmed(worker("a", "paused", console_mode="drain", mode_seen=False)) is None


def test_an_owners_rule_and_an_unknown_reason_are_said_in_words() -> None:
    assert words.reason_words("owner:hours") == "Paused by the owner's rule “hours”"
    assert words.reason_words("some-new-code") == "Some new code"


def test_a_device_is_named_with_its_memory() -> None:
    gpu = Gpu(uuid="u", name="RTX 4090", memory_bytes=24 * 2**30)
    assert words.device_words(Host(os="", arch="", hostname="", gpus=(gpu,))) == "RTX 4090 · 24.0 GiB"
    assert (
        words.device_words(Host(os="", arch="", hostname="", cpus=16, ram_gb=64)) == "No GPU · 16 cores · 64 GB memory"
    )


def test_every_moment_a_worker_may_claim_can_be_shown() -> None:
    assert words.moment(0) == words.moment(-1e300) == "1970-01-01T00:00:00Z"
    assert words.moment(1e300) == "9999-12-31T23:59:59Z"


def test_progress_says_all_done_only_when_it_is() -> None:
    assert words.percent_words(0.9999) == "99 %"
    assert words.percent_words(1.0) == "100 %"


@pytest.mark.parametrize(
    "away", ["https://evil.example", "//evil.example", "/\\evil.example", "", None, "jobs", "/a\nb"]
)
def test_a_form_cannot_send_a_person_to_another_site(away: str | None) -> None:
    assert local_path(away) == "/workers"


def test_the_way_back_stays_on_this_site() -> None:
    assert local_path("/jobs?state=failed") == "/jobs?state=failed"


@settings(deadline=None)
@given(st.text())
def test_a_log_line_keeps_no_control_character(text: str) -> None:
    cleaned = clean_text(text)
    assert not any(ord(letter) < 32 and letter not in "\t\n" for letter in cleaned)
    assert "\u202e" not in cleaned


def test_a_progress_bar_is_folded_to_its_last_state_and_loses_its_colours() -> None:
    assert clean_text("10 %\r50 %\r\x1b[32m100 %\x1b[0m\r") == "100 %"
    assert clean_text("\x1b]0;title\x07name\x1b[2K") == "name"


def test_a_long_log_comes_in_chunks() -> None:
    lines = [LogLine(cursor=str(n), attempt=1, seq=n, ts=float(n), stream="stdout", text=str(n)) for n in range(450)]
    assert [len(chunk) for chunk in chunks(lines)] == [CHUNK_LINES, CHUNK_LINES, 50]


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("until 2026-11-30T10:04:00Z", "Until 30 Nov 2026, 10:04 UTC"),
        ("from 10.0.0.1", "From 10.0.0.1"),
        ("lost on 2026-99-30T10:04:00Z", "Lost on 2026-99-30T10:04:00Z"),
        ("", ""),
    ],
)
def test_the_history_begins_its_details_large_and_shows_moments_as_days(detail: str, shown: str) -> None:
    assert words.detail_words(detail) == shown
