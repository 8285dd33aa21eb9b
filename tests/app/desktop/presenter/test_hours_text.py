"""Hours are one line of text that reads back as what it was written from."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.desktop.presenter.hours_text import EXAMPLE, BadHours, hours_text, parse_hours
from worker_core.wire.owner_rules import DAYS, Hours

CLOCK = st.builds(lambda hour, minute: f"{hour:02d}:{minute:02d}", st.integers(0, 23), st.integers(0, 59))
DAY_SETS = st.sets(st.sampled_from(DAYS), min_size=1).map(lambda days: tuple(day for day in DAYS if day in days))


@given(st.lists(st.builds(Hours, begin=CLOCK, end=CLOCK, days=DAY_SETS), max_size=6).map(tuple))
def test_hours_survive_their_text(hours: tuple[Hours, ...]) -> None:
    assert parse_hours(hours_text(hours)) == hours


@given(st.text(max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    with contextlib.suppress(BadHours):
        parse_hours(text)


def test_a_refusal_ends_with_an_example() -> None:
    with pytest.raises(BadHours, match=EXAMPLE):
        parse_hours("whenever")


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("20:00-08:00", DAYS),
        ("daily 20:00 – 8:00", DAYS),
        ("Monday-Friday 20:00-08:00", DAYS[:5]),
        ("fri-mon 20:00-08:00", ("mon", "fri", "sat", "sun")),
        ("tues, thurs 20:00-08:00", ("tue", "thu")),
        ("sat, sun 20:00-08:00", ("sat", "sun")),
    ],
)
def test_days_are_written_as_people_do(text: str, days: tuple[str, ...]) -> None:
    (span,) = parse_hours(text)
    assert (span.begin, span.end, span.days) == ("20:00", "08:00", days)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("at night", "no span of hours"),
        ("20:00-24:00", "24:00 is no time"),
        ("noday 20:00-08:00", "“noday” is no day"),
        ("mon fri 20:00-08:00", "“mon fri” is no day"),
        ("monkey 20:00-08:00", "“monkey” is no day"),
    ],
)
def test_what_is_wrong_is_said_with_the_cure(text: str, said: str) -> None:
    with pytest.raises(BadHours, match=said):
        parse_hours(text)
