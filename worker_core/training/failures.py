"""How an error that ends a job is told: its class, one message, the traceback where it helps.

Exception
├── JobFailure      the job cannot go on, for a reason we can name
├── FailedElsewhere another process of the job cannot go on
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

# What drivers and libraries say, in the order in which it is looked for: the first row that fits decides. Their texts
# are the one thing that all versions of torch share; the types of its errors have changed.
_TEXTS: tuple[tuple[FailureClass, tuple[str, ...]], ...] = (
    (
        "unsupported-gpu",
        (
            "no kernel image is available",
            "CUDA error: invalid device function",
            "is not compatible with the current PyTorch installation",
        ),
    ),
    (
        "driver-mismatch",
        (
            "driver version is insufficient",
            "driver on your system is too old",
            "unsupported display driver / cuda driver combination",
            "Driver/library version mismatch",
            "forward compatibility was attempted on non supported HW",
            "PTX was compiled with an unsupported toolchain",
            "API call is not supported in the installed CUDA driver",
        ),
    ),
    (
        "gpu-out-of-memory",
        (
            "CUDA out of memory",
            "HIP out of memory",
            "MPS backend out of memory",
            "CUDA error: out of memory",
            "CUBLAS_STATUS_ALLOC_FAILED",
            "CUDNN_STATUS_ALLOC_FAILED",
            "CUSOLVER_STATUS_ALLOC_FAILED",
            "Invalid buffer size:",  # Metal, for one buffer above what the device can hold
        ),
    ),
    (
        "out-of-memory",
        (
            "DefaultCPUAllocator: can't allocate memory",
            "DefaultCPUAllocator: not enough memory",
            "Cannot allocate memory (12)",
            "std::bad_alloc",
            "dataloader's workers are out of shared memory",
        ),
    ),
    (
        "device-lost",
        (
            "CUDA unknown error",
            "CUDA error: unknown error",
            "CUDA error: unspecified launch failure",
            "CUDA error: uncorrectable",
            "CUDA error: hardware",
            "CUDA error: the launch timed out",
            "ECC error",
            "device lost",
            "GPU is lost",
            "fallen off the bus",
            "no CUDA-capable device",
            "No CUDA GPUs are available",
            "busy or unavailable",
            "CUDA driver initialization failed",
            "Found no NVIDIA driver on your system",
            "CUDA error: initialization error",
            "CUDA error: invalid device ordinal",
            "CUDA error: system not yet initialized",
        ),
    ),
    (
        "disk-full",
        ("No space left on device", "Disk quota exceeded", "not enough space on the disk", "disk is full"),
    ),
)
_SAYS_SO = ("RuntimeError", "SafetensorError", "OperationalError", "AcceleratorError")
"""Types of errors whose texts come from drivers and libraries; in others such words may be a person's own."""
_DEEPEST_CAUSE = 8
_WINDOWS_DISK_FULL = (39, 112)
"""ERROR_HANDLE_DISK_FULL and ERROR_DISK_FULL."""


class JobFailure(Exception):
    """The job cannot go on; ``failure`` is its class and the text says what to do."""

    def __init__(self, failure: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure: FailureClass = failure


class FailedElsewhere(Exception):
    """Another process of this job cannot go on; ``told`` is how the job's end is told."""

    def __init__(self, told: JobError) -> None:
        super().__init__(told.message)
        self.told = told


class LeaveNow(Exception):
    """The job was told to leave: its checkpoint is saved, or the time for it is over."""


def describe(error: BaseException, workspace: Path) -> JobError:
    """Return what the core is told about ``error``."""
    if isinstance(error, FailedElsewhere):
        return error.told
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
    """Return the class of ``error``, or of what it says it was caused by."""
    cause: BaseException | None = error
    for _ in range(_DEEPEST_CAUSE):
        if cause is None:
            break
        found = _class_of(cause, workspace)
        if found != "exception":
            return found
        cause = cause.__cause__
    return "exception"


def _class_of(error: BaseException, workspace: Path) -> FailureClass:
    if isinstance(error, JobFailure):
        return error.failure
    if isinstance(error, BadSpec):
        return "bad-spec"
    if isinstance(error, MemoryError):
        return "out-of-memory"
    if isinstance(error, OSError):
        return _class_of_os_error(error, workspace)
    if any(kind.__name__ in _SAYS_SO for kind in type(error).__mro__):
        return class_of_text(str(error))
    return "exception"


def _class_of_os_error(error: OSError, workspace: Path) -> FailureClass:
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or getattr(error, "winerror", None) in _WINDOWS_DISK_FULL:
        return "disk-full"
    if error.errno == errno.ENOMEM:
        return "out-of-memory"
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        missing = workspace / error.filename
        if any(missing.is_relative_to(workspace / folder) for folder in ("inputs", "resume")):
            return "data-missing"
    return "exception"


def class_of_text(text: str) -> FailureClass:
    """Return the class of what a driver or library says."""
    for failure, parts in _TEXTS:
        if any(part in text for part in parts):
            return failure
    return "exception"
