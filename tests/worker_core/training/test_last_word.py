"""What a job writes down about its end, so that a core that was away can say the same."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker_core.training.channel import Channel
from worker_core.training.last_word import leave_last_word
from worker_core.wire.codec import decode
from worker_core.wire.frames import LAST_WORD_FILE, ArtifactReady, Done, LastWord, Order, pack

POLICY = ArtifactReady(name="policy", kind="result", path="results/policy", sha256="0" * 64, size=3)


class Pipes:
    """A channel and the other end of it."""

    def __init__(self) -> None:
        self.frames, frames = os.pipe()
        orders, self.orders = os.pipe()
        self.channel = Channel(frames, orders)

    def ack(self, number: int) -> None:
        os.write(self.orders, pack(Order(ack=number)))


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    yield made
    for end in (made.frames, made.orders):
        os.close(end)


def test_the_last_word_names_the_files_nobody_has_acknowledged(pipes: Pipes, tmp_path: Path) -> None:
    first = pipes.channel.send(POLICY)
    pipes.ack(first)
    assert pipes.channel.flush(5)
    pipes.channel.send(ArtifactReady(name="late", kind="result", path="results/late", sha256="1" * 64, size=4))
    leave_last_word(tmp_path, pipes.channel, Done(outcome="succeeded"), 0)
    word = decode((tmp_path / LAST_WORD_FILE).read_bytes(), LastWord)
    assert (word.done.outcome, word.exit) == ("succeeded", 0)
    assert [file.name for file in word.artifacts] == ["late"]


def test_a_job_that_was_asked_to_leave_has_no_last_word(pipes: Pipes, tmp_path: Path) -> None:
    leave_last_word(tmp_path, pipes.channel, Done(outcome="stopped"), 0)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_costs_the_last_word_and_nothing_else(
    pipes: Pipes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "workspace").write_bytes(b"no folder")
    leave_last_word(tmp_path / "workspace", pipes.channel, Done(outcome="failed"), 1)
    assert "could not be written" in capsys.readouterr().out
