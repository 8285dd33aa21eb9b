"""Classes of failures."""

import errno
from pathlib import Path

import pytest

from worker_core.training.failures import MAX_MESSAGE, MAX_TRACEBACK, JobFailure, classify, describe
from worker_core.wire.frames import Done, Frame, pack
from worker_core.wire.problems import FieldError
from worker_core.wire.spec import BadSpec

WORKSPACE = Path("/ws")


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError("x"), "exception"),
        (MemoryError(), "out-of-memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "gpu-out-of-memory"),
        (RuntimeError("MPS backend out of memory"), "gpu-out-of-memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out-of-memory"),
        (RuntimeError("CUDA error: unspecified launch failure"), "device-lost"),
        (RuntimeError("CUDA error: device-side assert triggered"), "exception"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk-full"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out-of-memory"),
        (FileNotFoundError(errno.ENOENT, "no", "inputs/words.txt"), "data-missing"),
        (FileNotFoundError(errno.ENOENT, "no", "/ws/inputs/words.txt"), "data-missing"),
        (FileNotFoundError(errno.ENOENT, "no", "/etc/words.txt"), "exception"),
        (JobFailure("device-lost", "gone"), "device-lost"),
        (BadSpec((FieldError(field="a", message="b"),)), "bad-spec"),
    ],
)
def test_every_kind_of_error_has_its_class(error: BaseException, failure: str) -> None:
    assert classify(error, WORKSPACE) == failure


def test_what_is_told_is_bounded() -> None:
    def deep(level: int) -> None:
        if level == 0:
            raise ValueError("x" * 100_000)
        deep(level - 1)

    with pytest.raises(ValueError, match="x") as raised:
        deep(300)
    told = describe(raised.value, WORKSPACE)
    assert len(told.message) <= MAX_MESSAGE
    assert len(told.traceback) <= MAX_TRACEBACK


def test_our_own_refusals_carry_no_traceback() -> None:
    assert describe(JobFailure("data-missing", "the checkpoint is torn"), WORKSPACE).traceback == ""


def test_an_error_about_a_name_that_is_no_utf8_can_be_told() -> None:
    told = describe(FileNotFoundError(errno.ENOENT, "no such file", "caf\udce9.txt"), WORKSPACE)
    sent = pack(Frame(id=1, body=Done(outcome="failed", error=told)))
    assert b"caf" in sent
