"""What a person may type as the coordinator's address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_core.link.address import Address
from worker_core.link.faults import BadAddress


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("https://stoker.example.org", "https://stoker.example.org"),
        (" https://stoker.example.org/ ", "https://stoker.example.org"),
        ("stoker.example.org", "https://stoker.example.org"),
        ("stoker.example.org:8443/sub/", "https://stoker.example.org:8443/sub"),
        ("localhost:8000", "http://localhost:8000"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("HTTPS://Stoker.Example.ORG", "https://stoker.example.org"),
    ],
)
def test_an_address_is_made_exact(typed: str, url: str) -> None:
    assert Address.parse(typed).url == url


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("http://stoker.example.org", "not encrypted"),
        ("http://192.168.1.5:8000", "not encrypted"),
        ("http://127.0.0.1.evil.example", "not encrypted"),
        ("ftp://stoker.example.org", "not the address"),
        ("", "not the address"),
        ("https://", "not the address"),
        ("https://ada:secret@stoker.example.org", "user name and password"),
        ("https://stoker.example.org/?a=b", "more than an address"),
        ("https://stoker.example.org:port", "not an address"),
        ("https://stoker example.org", "more than an address"),
    ],
)
def test_what_is_no_address_is_refused_in_words(typed: str, words: str) -> None:
    with pytest.raises(BadAddress, match=words) as refused:
        Address.parse(typed)
    assert "secret" not in str(refused.value)


@given(st.text(max_size=80))
def test_any_text_is_an_address_or_a_refusal(text: str) -> None:
    try:
        address = Address.parse(text)
    except BadAddress:
        return
    assert address.url.startswith("https://") or address.loopback
