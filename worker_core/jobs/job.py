"""One running job process with its four pipes, the same on every system."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from worker_core.jobs.process import MARK, ProcessIdentity, identify
from worker_core.jobs.runtime import Runtime
from worker_core.machine.priority import lower_priority
from worker_core.machine.spawn import clean_environment

if sys.platform == "win32":
    from worker_core.jobs.process_windows import start_with_pipes
else:
    from worker_core.jobs.process_posix import start_with_pipes


_SCRATCH_NAMES: tuple[str, ...] = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class StartedJob:
    """The process and our ends of its pipes, as file descriptors that the holder closes."""

    process: subprocess.Popen[bytes]
    identity: ProcessIdentity
    frames: int
    orders: int
    stdout: int
    stderr: int


def start_job(runtime: Runtime, workspace: Path, attempt_id: str, devices: Sequence[str] | None) -> StartedJob:
    """Start the job of ``workspace`` in a session of its own, behind everything else on the machine."""
    stdout_in, stdout_out = os.pipe()
    stderr_in, stderr_out = os.pipe()

    def command(frames: int, orders: int) -> list[str]:
        pipes = ["--frames-fd", str(frames), "--orders-fd", str(orders)]
        return [*runtime.command, "--workspace", str(workspace), *pipes]

    try:
        env = job_environment(workspace, attempt_id, devices)
        process, frames, orders = start_with_pipes(command, cwd=workspace, env=env, output=(stdout_out, stderr_out))
    except BaseException:
        os.close(stdout_in)
        os.close(stderr_in)
        raise
    finally:
        os.close(stdout_out)
        os.close(stderr_out)
    lower_priority(process.pid)
    return StartedJob(process, identify(process.pid), frames, orders, stdout_in, stderr_in)


def job_environment(workspace: Path, attempt_id: str, devices: Sequence[str] | None) -> dict[str, str]:
    """Return all that a job sees of our environment: nothing secret, and a home inside its workspace.

    ``devices`` are the UUIDs of the GPUs it may use, for its children too; None leaves the choice to it.
    """
    scratch = str(workspace / "tmp")
    extra = dict.fromkeys(_SCRATCH_NAMES, scratch) | {MARK: attempt_id}
    if devices is not None:
        extra |= {"CUDA_VISIBLE_DEVICES": ",".join(devices), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return clean_environment(extra)
