"""Numbers and times read as people say them, whatever they are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.desktop.presenter.wording import (
    ago,
    countdown,
    figure,
    host_of,
    left,
    menu_text,
    percent,
    reason_in_words,
    size,
)


@pytest.mark.parametrize(
    ("seconds", "text"), [(545, "9:05"), (0.2, "0:01"), (0, "0:00"), (-3, "0:00"), (3725, "1:02:05")]
)
def test_a_countdown_reaches_zero_only_when_the_time_is_up(seconds: float, text: str) -> None:
    assert countdown(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        ("NaN", "NaN"),
        ("Infinity", "∞"),
        ("-Infinity", "−∞"),
        (0.0, "0.000"),
        (0.15123, "0.151"),
        (-3.456, "−3.46"),
        (236.31, "236.3"),
        (9190.4, "9,190"),
        (2.5e-7, "2.50e−07"),
        (3e9, "3.00e+09"),
    ],
)
def test_a_figure_keeps_about_four_digits_and_hides_nothing(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_a_share_is_rounded_down_and_stays_between_none_and_all() -> None:
    assert [percent(share) for share in (-1, 0.999, 1, 7)] == ["0 %", "99 %", "100 %", "100 %"]


def test_time_left_is_said_only_when_it_is_known() -> None:
    assert [left(None), left(math.nan), left(math.inf), left(0.3), left(200)] == [
        "",
        "",
        "",
        "almost done",
        "3 min 20 s left",
    ]


def test_loopback_is_this_computer() -> None:
    assert host_of("http://127.0.0.1:8470") == "this computer"
    assert host_of("https://train.example.org:8443/x") == "train.example.org:8443"
    assert host_of(None) == "the coordinator"


def test_an_unknown_reason_is_shown_and_not_swallowed() -> None:
    assert reason_in_words("comet") == "Reason: comet."
    assert "night" in reason_in_words("owner:night")


def test_sizes_and_ages() -> None:
    assert [size(512), size(25_300_000_000), size(3 << 50)] == ["512 B", "23.6 GB", "3072.0 TB"]
    assert [ago(0.4), ago(75)] == ["just now", "1 min 15 s ago"]


@given(st.text(max_size=300))
def test_free_text_never_makes_a_menu_wide_or_two_lines_high(text: str) -> None:
    shown = menu_text(text)
    assert "\n" not in shown
    assert len(shown.replace("&&", "&")) <= 64
