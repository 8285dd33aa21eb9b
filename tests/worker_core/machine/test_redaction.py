"""A known secret is taken out of every text, however it is written and wherever the pieces of a stream end."""

import base64
import html
import json
import time
from urllib.parse import quote, quote_plus, urlencode
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from worker_core.machine.redaction import MASK, Redactor

SECRETS = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r\n"), min_size=8, max_size=40),
    st.text("abcXYZ+/=_-.~%&<>'\"\\ ü€😀", min_size=8, max_size=40),
)
AROUND = st.text("abc \n{}\"'&%", max_size=40)
ENCODINGS = {
    "plain": lambda text: text,
    "json": json.dumps,
    "json in words": lambda text: json.dumps(text, ensure_ascii=False),
    "url": lambda text: quote(text, safe=""),
    "url path": quote,
    "form": quote_plus,
    "query": lambda text: urlencode({"key": text}),
    "xml": escape,
    "xml attribute": quoteattr,
    "html": html.escape,
    "python": repr,
    "hex": lambda text: text.encode().hex(),
}


def redactor_of(*secrets: str | bytes) -> Redactor:
    redactor = Redactor()
    for secret in secrets:
        redactor.add(secret)
    return redactor


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_secret_is_found_in_every_form(name: str) -> None:
    encode = ENCODINGS[name]

    @settings(max_examples=30, deadline=None)
    @given(SECRETS, AROUND, AROUND)
    def check(secret: str, before: str, after: str) -> None:
        text = before + encode(secret) + after
        assert encode(secret) not in redactor_of(secret).redact(text)
        assert MASK.decode() in redactor_of(secret).redact(text)

    check()


@settings(max_examples=60, deadline=None)
@given(SECRETS, st.binary(max_size=9), st.binary(max_size=9), st.booleans())
@example("secret-secret", b"", b"", False)
def test_a_secret_inside_base64_is_found_at_each_of_its_three_places(
    secret: str, before: bytes, after: bytes, for_urls: bool
) -> None:
    encode = base64.urlsafe_b64encode if for_urls else base64.b64encode
    raw = secret.encode()
    redacted = redactor_of(secret).redact_bytes(encode(before + raw + after))
    assert MASK in redacted
    # What is left beside the mask are the neighbours and at most six bits of the secret on each side.
    assert len(redacted) - len(MASK) <= 4 * (-(-len(before) // 3) + -(-len(after) // 3)) + 8


@settings(max_examples=60, deadline=None)
@given(st.lists(SECRETS, min_size=1, max_size=3), st.data())
def test_a_stream_gives_the_same_wherever_its_pieces_end(secrets: list[str], data: st.DataObject) -> None:
    redactor = redactor_of(*secrets)
    parts = st.one_of(st.sampled_from(secrets), st.sampled_from(secrets).map(lambda one: one[: len(one) // 2]), AROUND)
    raw = "".join(data.draw(st.lists(parts, max_size=8))).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    stream = redactor.stream()
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    came = b"".join(stream.feed(piece) for piece in pieces) + stream.close()
    assert came == redactor.redact_bytes(raw)
    assert not any(secret.encode() in came for secret in secrets if secret not in MASK.decode())


def test_a_stream_holds_back_only_what_may_become_a_secret() -> None:
    stream = redactor_of("hunter2-hunter2").stream()
    assert stream.feed(b"a line\nanother hunt") == b"a line\nanother "
    assert stream.feed(b"ing\n") == b"hunting\n"


def test_the_lines_of_a_key_file_are_secrets_and_its_frame_is_not() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ\nq83vEjRWeJCrze8SNFZ4kKv\n-----END PRIVATE KEY-----\n"
    redacted = redactor_of(key).redact(f"the log says {json.dumps(key)}")
    assert "MC4CAQ" not in redacted
    assert "q83vEj" not in redacted
    assert "BEGIN PRIVATE KEY" in redacted


def test_a_long_secret_is_found_in_base64_too() -> None:
    secret = bytes(range(33, 126)).decode() * 20
    redacted = redactor_of(secret).redact_bytes(base64.b64encode(b"x" + secret.encode() + b"yz"))
    assert len(redacted) < 60 * (len(MASK) + 4)


def test_short_texts_black_out_nothing() -> None:
    assert redactor_of("", "abc", "12345").redact("abc 12345") == "abc 12345"


def test_only_the_newest_access_tokens_are_remembered() -> None:
    redactor = Redactor()
    for number in range(20):
        redactor.add_passing(f"token-number-{number:02}")
    assert redactor.redact("token-number-19") == "[secret]"
    assert redactor.redact("token-number-01") == "token-number-01"


def test_bytes_that_are_no_text_are_secrets_too() -> None:
    seed = bytes(range(200, 232))
    redactor = redactor_of(seed)
    assert redactor.redact(f"seed {base64.urlsafe_b64encode(seed).decode()}").startswith("seed [secret]")
    assert redactor.redact(seed.hex()) == "[secret]"


def test_ten_secrets_cost_a_log_less_than_a_second_for_thirty_megabytes() -> None:
    redactor = redactor_of(*(f"{number}-abcdefghijklmnopqrstuvwxyz-{number}" for number in range(10)))
    log = b"2026-11-30 12:00:00 INFO step 1000 loss 0.123456 return 17.5\n" * 16_000
    started = time.process_time()
    redactor.redact_bytes(log)
    assert (time.process_time() - started) / len(log) < 1.0 / 30e6
