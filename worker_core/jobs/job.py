"""One running job process with its four pipes, contained, the same on every system."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker_core.jobs.process import MARK, ProcessIdentity, TreeEnd, end_tree, identify, kill_at_once
from worker_core.jobs.runtime import Runtime
from worker_core.jobs.sandbox.cell import Cell, Containment, Held
from worker_core.jobs.sandbox.control_groups import kill_group, remove_group
from worker_core.jobs.tree_use import TreeUse, Unnamed, read_tree_use, read_unnamed
from worker_core.machine.gpu_probe import gpu_environment
from worker_core.machine.priority import lower_session
from worker_core.machine.spawn import clean_environment

if sys.platform == "linux":
    from worker_core.jobs.sandbox.bounds import raise_victim

if sys.platform == "win32":
    from worker_core.jobs.process_windows import start_with_pipes
else:
    from worker_core.jobs.process_posix import start_with_pipes


_SCRATCH_NAMES: tuple[str, ...] = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class StartedJob:
    """The process and our ends of its pipes, as file descriptors that the holder closes."""

    process: subprocess.Popen[bytes]
    identity: ProcessIdentity
    held: Held
    cell: Cell
    frames: int
    orders: int
    stdout: int
    stderr: int

    def kill(self, limit_s: float) -> TreeEnd:
        """Like :meth:`end_tree`, but in a hurry: what the kernel ends as one is ended before anything is looked for."""
        if self.held.inner is not None:
            kill_at_once(self.held.inner)
        return self.end_tree(limit_s)

    def end_tree(self, limit_s: float) -> TreeEnd:
        """Kill everything of the job and wait until nothing is left; blocks for ``limit_s`` at most."""
        if self.held.group is not None:
            kill_group(self.held.group)
        end = end_tree(self.identity, self.cell.attempt_id, limit_s=limit_s, inner=self.held.inner)
        if self.held.group is not None and not end.left:
            remove_group(self.held.group)
        return end

    def close(self) -> None:
        """Close our ends of the pipes; only where nobody else was given them."""
        for descriptor in (self.frames, self.orders, self.stdout, self.stderr):
            os.close(descriptor)
        self.held.close()

    def use(self, unnamed_bytes: int) -> TreeUse:
        """Return what the tree uses now, with memory in files of :class:`Unnamed`; blocks for milliseconds."""
        use = read_tree_use(self._root, self.held.group, self.cell.memory_bytes, unnamed_bytes)
        _keep_behind(use.members)
        return use

    def unnamed(self) -> Unnamed:
        """Return what the tree holds in files that no folder shows; blocks for milliseconds."""
        return read_unnamed(self._root, os.stat(self.cell.workspace).st_dev)

    @property
    def _root(self) -> int:
        return (self.held.inner or self.identity).pid


def start_job(runtime: Runtime, cell: Cell, containment: Containment) -> StartedJob:
    """Start the job of ``cell``, contained, in a session of its own, behind everything else; raises OSError.

    This blocks for some milliseconds: call it in a thread.
    """
    stdout_in, stdout_out = os.pipe()
    stderr_in, stderr_out = os.pipe()
    opened = [stdout_in, stderr_in]
    try:
        with containment.launch(cell) as launch:

            def command(frames: int, orders: int) -> list[str]:
                pipes = ["--frames-fd", str(frames), "--orders-fd", str(orders)]
                return launch.wrap([*runtime.command, "--workspace", str(cell.workspace), *pipes])

            env = job_environment(cell.workspace, cell.attempt_id, cell.devices)
            if containment.by == "bubblewrap":
                env["PATH"] = os.pathsep.join((str(Path(runtime.command[0]).parent), _SYSTEM_PATH))
            output = (stdout_out, stderr_out)
            process, frames, orders = start_with_pipes(
                command, cwd=cell.workspace, env=env, output=output, inherit=launch.inherit
            )
            opened += [frames, orders]
            identity = identify(process.pid)
            try:
                held = launch.release(process)
            except BaseException:
                end_tree(identity, cell.attempt_id, limit_s=1.0)
                process.wait()
                raise
    except BaseException:
        for descriptor in opened:
            os.close(descriptor)
        raise
    finally:
        os.close(stdout_out)
        os.close(stderr_out)
    return StartedJob(process, identity, held, cell, frames, orders, stdout_in, stderr_in)


def job_environment(workspace: Path, attempt_id: str, devices: Sequence[str] | None) -> dict[str, str]:
    """Return all that a job sees of our environment: nothing secret, and a home inside its workspace.

    ``devices`` are the UUIDs of the GPUs it may use, for its children too; None leaves the choice to it.
    """
    scratch = str(workspace / "tmp")
    extra = dict.fromkeys(_SCRATCH_NAMES, scratch) | {MARK: attempt_id}
    if devices is not None:
        extra |= gpu_environment(devices)
    return clean_environment(extra)


def _keep_behind(members: Iterable[int]) -> None:
    """Put a tree behind everything else again: a job may take that back, and its new sessions begin without it."""
    if sys.platform == "linux":
        for pid in members:
            lower_session(pid)
            raise_victim(pid)
