"""Classes of failures."""

import errno
from pathlib import Path
from typing import get_args

import pytest

from worker_core.training.failures import MAX_MESSAGE, MAX_TRACEBACK, JobFailure, classify, describe
from worker_core.wire.failure_rules import DEVICE_FAILURES, RETRYABLE_FAILURES, RULES, cure_of
from worker_core.wire.frames import Done, Frame, pack
from worker_core.wire.problems import FieldError
from worker_core.wire.spec import BadSpec
from worker_core.wire.vocabulary import FailureClass

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


class AcceleratorError(RuntimeError):
    """As newer versions of torch name what the driver says."""


class SafetensorError(Exception):
    """As safetensors names what the system says."""


TEXTS = [
    ("CUDA error: no kernel image is available for execution on the device\nCUDA kernel", "unsupported-gpu"),
    ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", "driver-mismatch"),
    ("CUDA driver version is insufficient for CUDA runtime version", "driver-mismatch"),
    ("The NVIDIA driver on your system is too old (found version 11040). Please update", "driver-mismatch"),
    ("CUDA error: system has unsupported display driver / cuda driver combination", "driver-mismatch"),
    ("Failed to initialize NVML: Driver/library version mismatch", "driver-mismatch"),
    ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.79 GiB", "gpu-out-of-memory"),
    ("CUDA error: out of memory", "gpu-out-of-memory"),
    ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "gpu-out-of-memory"),
    ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "gpu-out-of-memory"),
    ("HIP out of memory. Tried to allocate 20.00 MiB", "gpu-out-of-memory"),
    ("MPS backend out of memory (MPS allocated: 9.05 GB, other allocations: 1.2 MB)", "gpu-out-of-memory"),
    ("Invalid buffer size: 14.90 GiB", "gpu-out-of-memory"),
    ("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory", "out-of-memory"),
    ("DefaultCPUAllocator: not enough memory: you tried to allocate 800000000000 bytes.", "out-of-memory"),
    ("unable to mmap 536870912 bytes from file <x>: Cannot allocate memory (12)", "out-of-memory"),
    ("DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of "
     "shared memory. Please try to raise your shared memory limit.", "out-of-memory"),
    ("CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable "
     "CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.", "device-lost"),
    ("CUDA error: unspecified launch failure", "device-lost"),
    ("CUDA error: uncorrectable ECC error encountered", "device-lost"),
    ("CUDA error: unknown error", "device-lost"),
    ("No CUDA GPUs are available", "device-lost"),
    ("CUDA error: all CUDA-capable devices are busy or unavailable", "device-lost"),
    ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", "device-lost"),
    ("Unexpected error from cudaGetDeviceCount(). Error 100: no CUDA-capable device is detected", "device-lost"),
    ("CUDA driver initialization failed, you might not have a CUDA gpu.", "device-lost"),
    ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "device-lost"),
    ("Error while serializing: I/O error: No space left on device (os error 28)", "disk-full"),
    ("database or disk is full", "disk-full"),
    ("CUDA error: an illegal memory access was encountered", "exception"),
    ("CUDA error: device-side assert triggered", "exception"),
    ("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)", "exception"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "failure"), TEXTS, ids=[text[:40] for text, _ in TEXTS])
def test_what_drivers_and_libraries_say_decides_whatever_type_they_raise(text: str, failure: str) -> None:
    for kind in (RuntimeError, AcceleratorError, SafetensorError):
        assert classify(kind(text), WORKSPACE) == failure
    # A person's own words are not the driver's.
    assert classify(ValueError(text), WORKSPACE) == "exception"


def test_an_error_is_what_it_says_it_was_caused_by() -> None:
    error = ValueError("the batch could not be made")
    error.__cause__ = RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
    assert classify(error, WORKSPACE) == "gpu-out-of-memory"
    circle = ValueError("round and round")
    circle.__cause__ = circle
    assert classify(circle, WORKSPACE) == "exception"


def test_every_class_has_a_cure_and_a_rule() -> None:
    assert set(RULES) == set(get_args(FailureClass))
    assert all(rule.cure.endswith(".") and "\n" not in rule.cure for rule in RULES.values())
    assert set(DEVICE_FAILURES) <= set(RETRYABLE_FAILURES)
    assert "exception" not in RETRYABLE_FAILURES
    assert cure_of("of a newer version") == ""


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
