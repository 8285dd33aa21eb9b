"""Lines of a job's output: the same whatever the chunks, bounded, without progress bars."""

from hypothesis import given, settings
from hypothesis import strategies as st

from worker_core.jobs.lines import LINES_PER_SECOND, LineRate, LineSplitter
from worker_core.machine.redaction import Redactor
from worker_core.wire.events import MAX_LINE_BYTES

PIECES = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\r", "ü".encode(), b"\xff"]), max_size=60)


def all_lines(chunks: list[bytes]) -> list[str]:
    splitter = LineSplitter(Redactor())
    lines = [line for chunk in chunks for line in splitter.feed(chunk, 0.0)]
    return [*lines, *splitter.close()]


@given(PIECES, st.data())
def test_lines_do_not_depend_on_how_the_output_was_cut(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert all_lines(chunks) == all_lines([whole])


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=50)))
def test_plain_lines_come_out_as_they_went_in(texts: list[str]) -> None:
    assert all_lines(["".join(text + "\n" for text in texts).encode()]) == texts


@given(st.binary(max_size=40_000))
def test_no_line_is_longer_than_the_limit(output: bytes) -> None:
    assert all(len(line.encode()) <= MAX_LINE_BYTES for line in all_lines([output, b"x" * 20_000]))


def test_windows_line_ends_are_one_line_end() -> None:
    assert all_lines([b"one\r", b"\ntwo\r\n"]) == ["one", "two"]


def test_a_progress_bar_shows_twice_a_second_and_its_last_state_always() -> None:
    splitter = LineSplitter(Redactor())
    lines = [line for number in range(1000) for line in splitter.feed(b"\r%d%%" % number, number / 100)]
    lines += splitter.feed(b"\rdone\n", 10.0)
    assert 18 <= len(lines) <= 22
    assert lines[-1] == "done"


def test_more_lines_than_allowed_in_a_second_are_counted() -> None:
    rate = LineRate()
    admitted = sum(rate.admit(7.5) for _ in range(1000))
    assert admitted == LINES_PER_SECOND
    assert rate.admit(8.0)
    assert rate.take_dropped() == 1000 - LINES_PER_SECOND
    assert rate.take_dropped() == 0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.binary(max_size=9000), max_size=4), st.integers(0, 20_000))
def test_pieces_of_long_lines_end_between_letters(chunks: list[bytes], letters: int) -> None:
    splitter = LineSplitter(Redactor())
    text = "é€😀x" * letters
    lines = [line for chunk in (text.encode(), *chunks) for line in splitter.feed(chunk, 0.0)]
    lines += splitter.close()
    assert all(len(line.encode()) <= MAX_LINE_BYTES for line in lines)
    if not any(chunks):
        assert "".join(lines) == text


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 3 * MAX_LINE_BYTES), st.integers(20, 9000))
def test_a_secret_at_the_end_of_a_piece_is_found(before: int, chunk: int) -> None:
    secrets = Redactor()
    secrets.add("hunter2-hunter2-hunter2")
    splitter = LineSplitter(secrets)
    raw = b"x" * before + b"hunter2-hunter2-hunter2" + b"y" * MAX_LINE_BYTES
    lines = [line for start in range(0, len(raw), chunk) for line in splitter.feed(raw[start : start + chunk], 0.0)]
    joined = "".join(secrets.redact(line) for line in [*lines, *splitter.close()])
    assert joined == "x" * before + "[secret]" + "y" * MAX_LINE_BYTES
