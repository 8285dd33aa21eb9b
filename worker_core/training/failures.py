"""How an error that ends a job is told: its class, one message, the traceback where it helps.

Exception
├── JobFailure      the job cannot go on, for a reason we can name
└── LeaveNow        not a failure: the job was told to leave and has done what it could
"""

import errno
import traceback
from pathlib import Path

from worker_core.wire.frames import JobError
from worker_core.wire.spec import BadSpec
from worker_core.wire.vocabulary import FailureClass

MAX_MESSAGE = 4_000
MAX_TRACEBACK = 32_000

_GPU_MEMORY = ("CUDA out of memory", "MPS backend out of memory")
_CPU_MEMORY = ("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory")
_DEVICE_LOST = (
    "device lost",
    "fallen off the bus",
    "ECC error",
    "unspecified launch failure",
    "no CUDA-capable device",
)


class JobFailure(Exception):
    """The job cannot go on; ``failure`` is its class and the text says what to do."""

    def __init__(self, failure: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure: FailureClass = failure


class LeaveNow(Exception):
    """The job was told to leave: its checkpoint is saved, or the time for it is over."""


def describe(error: BaseException, workspace: Path) -> JobError:
    """Return what the core is told about ``error``."""
    failure = classify(error, workspace)
    if isinstance(error, (JobFailure, BadSpec)):
        return JobError(failure=failure, message=_writable(str(error))[:MAX_MESSAGE])
    text = _writable("".join(traceback.format_exception(error)))
    message = _writable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    return JobError(failure=failure, message=message[:MAX_MESSAGE], traceback=text[-MAX_TRACEBACK:])


def _writable(text: str) -> str:
    """Return text that UTF-8 can hold: the name of a file may have bytes that are none."""
    return text.encode(errors="backslashreplace").decode()


def classify(error: BaseException, workspace: Path) -> FailureClass:
    """Return the class of ``error``."""
    if isinstance(error, JobFailure):
        return error.failure
    if isinstance(error, BadSpec):
        return "bad-spec"
    if isinstance(error, MemoryError):
        return "out-of-memory"
    if isinstance(error, OSError):
        return _classify_os_error(error, workspace)
    if isinstance(error, RuntimeError):
        return _classify_torch_error(str(error))
    return "exception"


def _classify_os_error(error: OSError, workspace: Path) -> FailureClass:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "disk-full"
    if error.errno == errno.ENOMEM:
        return "out-of-memory"
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        missing = workspace / error.filename
        if any(missing.is_relative_to(workspace / folder) for folder in ("inputs", "resume")):
            return "data-missing"
    return "exception"


def _classify_torch_error(text: str) -> FailureClass:
    # torch raises its own subclasses of RuntimeError; their texts are the one thing all versions share.
    if any(part in text for part in _GPU_MEMORY):
        return "gpu-out-of-memory"
    if any(part in text for part in _CPU_MEMORY):
        return "out-of-memory"
    if any(part in text for part in _DEVICE_LOST):
        return "device-lost"
    return "exception"
