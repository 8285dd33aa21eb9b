"""Pairing codes and fingerprint words: typed in any way, never guessed right by mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.accounts.keys import WORDS, fingerprint_words
from worker_core.wire.pairing import USER_CODE_ALPHABET, BadUserCode, normalise_user_code, show_user_code

CODES = st.text(USER_CODE_ALPHABET, min_size=8, max_size=8)


@given(CODES, st.data())
def test_a_code_may_be_typed_with_any_case_and_spacing(code, data):
    blanks = st.text(" -", max_size=2)
    typed = "".join(data.draw(blanks) + data.draw(st.sampled_from([c, c.lower()])) for c in code)
    assert normalise_user_code(typed) == code
    assert normalise_user_code(show_user_code(code)) == code


@given(st.text(max_size=12))
def test_what_is_no_code_is_refused_and_never_becomes_one(text):
    try:
        code = normalise_user_code(text)
    except BadUserCode:
        return
    assert len(code) == 8
    assert set(code) <= set(USER_CODE_ALPHABET)
    assert code == text.upper().replace("-", "").replace(" ", "")


@given(CODES, st.integers(0, 7), st.sampled_from("AEIOUY013.ÄСñ\n"))
def test_foreign_letters_are_named(code, place, letter):
    with pytest.raises(BadUserCode):
        normalise_user_code(code[:place] + letter + code[place + 1 :])


def test_the_words_bind_worker_coordinator_and_pairing():
    words = {
        fingerprint_words(worker, coordinator, pairing)
        for worker in ("w1", "w2")
        for coordinator in ("c1", "c2")
        for pairing in ("p1", "p2")
    }
    assert len(words) == 8
    assert all(len(line.split()) == 4 for line in words)
    assert len(WORDS) == len(set(WORDS)) == 256
