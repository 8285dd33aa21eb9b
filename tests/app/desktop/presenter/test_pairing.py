"""The form says what is wrong before anybody is asked; outcomes say what to do."""

import pytest

from app.desktop.presenter.pairing import (
    PairingForm,
    check_form,
    coordinator_address,
    failure_title,
    outcome_words,
    spelled_code,
)
from worker_core.control.messages import ErrorBody, PairOutcome

GOOD = {"coordinator": "https://train.example.org", "email": "ada@example.org", "name": "den"}


def fault(**changes: str) -> str | None:
    typed = GOOD | changes
    error = check_form(
        PairingForm(here=False, coordinator=typed["coordinator"], email=typed["email"], name=typed["name"])
    )
    return error.field if error else None


def test_a_complete_form_is_accepted() -> None:
    assert fault() is None
    assert check_form(PairingForm(here=True, email="ada@example.org", password="correct horse", name="den")) is None


@pytest.mark.parametrize(
    "address",
    ["", "  ", "ftp://x.org", "https://", "https://a b.org", "https://u:p@x.org", "https://x.org:port", "http://x.org"],
)
def test_an_address_that_cannot_be_right_is_named(address: str) -> None:
    assert fault(coordinator=address) == "coordinator"


@pytest.mark.parametrize("email", ["", "ada", "@x", "ada@", "a b@x.org", "a@b@c"])
def test_an_email_that_cannot_be_right_is_named(email: str) -> None:
    assert fault(email=email) == "email"


def test_a_name_is_needed_and_bounded() -> None:
    assert fault(name=" ") == "name"
    assert fault(name="x" * 65) == "name"


def test_this_computer_needs_a_password_and_no_address() -> None:
    error = check_form(PairingForm(here=True, email="ada@example.org", password="short12", name="den"))
    assert error is not None
    assert error.field == "password"


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("train.example.org", "https://train.example.org"),
        ("train.example.org:8443/", "https://train.example.org:8443"),
        ("localhost:8470", "http://localhost:8470"),
        ("127.0.0.1:8470", "http://127.0.0.1:8470"),
        (" https://x.org/base/ ", "https://x.org/base"),
    ],
)
def test_the_scheme_may_be_left_out(typed: str, address: str) -> None:
    assert coordinator_address(typed) == address


def test_every_outcome_and_failure_has_words() -> None:
    for state in ("approved", "denied", "expired", "canceled", "failed"):
        headline, sentence = outcome_words(PairOutcome(state=state))  # type: ignore[arg-type]
        assert headline
        assert sentence
    assert outcome_words(PairOutcome(state="denied", detail="Ada said no."))[1] == "Ada said no."
    assert failure_title(ErrorBody(code="unreachable", text="")) == "The coordinator could not be reached"


def test_a_screen_reader_spells_the_code() -> None:
    assert spelled_code("BCDF-GHJK") == "B C D F, G H J K"
