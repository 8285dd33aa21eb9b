"""Parsers of everything that crosses a border, against damaged and invented input (more of it: `dev.py bench fuzz`)."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench._fuzz_targets import TARGETS, clean_up

SLOW = {"specs": 12, "bundles": 20, "messages": 30, "signed-objects": 20, "worker-files": 20}


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    yield
    clean_up()


@st.composite
def damaged(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """A good input with bytes replaced, cut out, repeated or put in; or none at all."""
    data = bytearray(draw(st.sampled_from(seeds) | st.binary(max_size=200)))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        put = draw(
            st.binary(max_size=8) | st.sampled_from([b"\x00", b"9" * 400, b"[" * 300, b"1e999", b'"', b"../", b""])
        )
        data[start:end] = put * draw(st.sampled_from([1, 1, 1, 3]))
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_is_taken_or_refused_and_nothing_else(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=SLOW.get(name, 50), deadline=None)
    @given(damaged(target.seeds))
    def read(data: bytes) -> None:
        target.read(data)

    read()


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_begins_from_something_good(name: str) -> None:
    for seed in TARGETS[name].seeds:
        TARGETS[name].read(seed)
