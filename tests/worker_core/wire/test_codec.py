"""Strict JSON: what comes in can always be written again."""

import pytest

from worker_core.wire.codec import BadMessage, decode
from worker_core.wire.events import Log, Metric


@pytest.mark.parametrize("text", [r"\ud800", r"a \udfff b"])
def test_half_a_surrogate_pair_is_no_message(text: str) -> None:
    with pytest.raises(BadMessage):
        decode(f'{{"t":"l","ts":1,"stream":"stdout","text":"{text}"}}', Log)
    with pytest.raises(BadMessage):
        decode(f'{{"t":"m","ts":1,"step":1,"values":{{"{text}":1.0}}}}', Metric)


def test_numbers_that_no_double_holds_are_spelled_and_their_neighbours_kept() -> None:
    read = decode('{"t":"m","ts":1,"step":1,"values":{"\\ud83d\\ude00":1e400,"big":-1e999,"small":0.5}}', Metric)
    assert read.values == {"\U0001f600": "Infinity", "big": "-Infinity", "small": 0.5}
