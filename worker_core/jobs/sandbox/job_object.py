"""Holds a job's tree in a Windows job object: ended as one, bounded in memory and number, without a way out. Untested.

The process is made halted, put into the object and only then resumed, so that nothing of it ever runs outside. The
object ends everything in it when its last handle is closed; that handle is the core's, and it is inherited by nobody.
A job whose core is gone is therefore ended at once on Windows: its last checkpoint counts. Breaking away is off, as no
flag allows it. Structures and constants: winnt.h; what they mean: "Job Objects" in the Windows documentation.
"""

import ctypes
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from worker_core.jobs.sandbox.cell import Cell, ContainedBy, Held
from worker_core.machine.priority import lower_priority

EXTENDED_LIMITS = 9
ACTIVE_PROCESS = 0x00000008
PRIORITY_CLASS = 0x00000020
JOB_MEMORY = 0x00000200
DIE_ON_UNHANDLED = 0x00000400
KILL_ON_CLOSE = 0x00002000
BELOW_NORMAL = 0x00004000


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_: ClassVar = [
        ("per_process_user_time", ctypes.c_int64),
        ("per_job_user_time", ctypes.c_int64),
        ("limit_flags", ctypes.c_uint32),
        ("minimum_working_set", ctypes.c_size_t),
        ("maximum_working_set", ctypes.c_size_t),
        ("active_process_limit", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    ]


class IoCounters(ctypes.Structure):
    """IO_COUNTERS."""

    _fields_: ClassVar = [(name, ctypes.c_uint64) for name in ("reads", "writes", "others", "read", "written", "other")]


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_: ClassVar = [
        ("basic", BasicLimits),
        ("io", IoCounters),
        ("process_memory", ctypes.c_size_t),
        ("job_memory", ctypes.c_size_t),
        ("peak_process_memory", ctypes.c_size_t),
        ("peak_job_memory", ctypes.c_size_t),
    ]


def limits_of(cell: Cell) -> ExtendedLimits:
    """Return what the kernel is told for one job."""
    limits = ExtendedLimits()
    limits.basic.limit_flags = ACTIVE_PROCESS | PRIORITY_CLASS | JOB_MEMORY | DIE_ON_UNHANDLED | KILL_ON_CLOSE
    limits.basic.active_process_limit = cell.processes
    limits.basic.priority_class = BELOW_NORMAL
    limits.job_memory = cell.memory_bytes
    return limits


@dataclass(frozen=True)
class JobObject:
    """A job object per job."""

    detail: str = ""
    by: ContainedBy = "job-object"
    enforces_network: bool = False
    limits: tuple[str, ...] = ("memory", "processes")

    @contextmanager
    def launch(self, cell: Cell) -> Generator["JobObjectLaunch"]:
        """Prepare nothing: the object is made around the process."""
        yield JobObjectLaunch(cell)


@dataclass
class JobObjectLaunch:
    """One start."""

    cell: Cell
    inherit: tuple[int, ...] = ()

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command itself."""
        return list(command)

    def release(self, process: subprocess.Popen[bytes]) -> Held:
        """Put the halted process into its object and resume it; raises OSError, and then nothing of it has run."""
        if sys.platform != "win32":
            raise OSError("job objects are of Windows")
        _enclose(process, limits_of(self.cell))
        lower_priority(process.pid)
        return Held()


if sys.platform == "win32":

    def _enclose(process: subprocess.Popen[bytes], limits: ExtendedLimits) -> None:
        kernel, native = ctypes.WinDLL("kernel32", use_last_error=True), ctypes.WinDLL("ntdll")
        kernel.CreateJobObjectW.restype = ctypes.c_void_p
        handle = int(process._handle)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]
        job = ctypes.c_void_p(kernel.CreateJobObjectW(None, None))
        size = ctypes.sizeof(limits)
        done = (
            job.value is not None
            and kernel.SetInformationJobObject(job, EXTENDED_LIMITS, ctypes.byref(limits), size)
            and kernel.AssignProcessToJobObject(job, ctypes.c_void_p(handle))
        )
        if not done:
            raise ctypes.WinError(ctypes.get_last_error())
        # The handle lives as long as the core: kept with the process that it holds.
        process.job_object = job  # pyright: ignore[reportAttributeAccessIssue]
        # One call for all threads of a process; what is documented resumes one thread whose handle Popen has closed.
        if native.NtResumeProcess(ctypes.c_void_p(handle)) != 0:
            raise OSError("the process of the job cannot be resumed")
