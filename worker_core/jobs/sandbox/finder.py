"""Finds the strongest containment that works here, by trying it: an installed program may not be allowed to run."""

import logging
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from worker_core.jobs.process import end_tree, identify
from worker_core.jobs.sandbox.bubblewrap_view import Hidden
from worker_core.jobs.sandbox.cell import Cell, Containment
from worker_core.jobs.sandbox.process_group import ProcessGroup
from worker_core.machine.paths import Paths
from worker_core.machine.spawn import clean_environment, spawn

log = logging.getLogger(__name__)

_TRY_S = (1.0, 3.0, 9.0)
"""How long a try may take; a machine that is busy with something else gets more time before it is called broken."""
_MAX_WORDS = 300
_KILLED = -9
_TRIAL = "trial"
_NO_USER_NAMESPACES = (
    "The system does not let bubblewrap make a sandbox ({words}). On Ubuntu: install the apparmor profile of bwrap, or "
    "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`; in a container: run the worker outside of it."
)
_RIGHTS = ("uid map", "namespace", "Operation not permitted", "Permission denied")
_MISSING = "bubblewrap is not installed, so nothing keeps a job from your files. On Debian and Ubuntu: {cure}."
_CURE = "sudo apt-get install bubblewrap"


def find_containment(paths: Paths) -> Containment:
    """Return how jobs are contained on this machine. This starts programs: call it in a thread."""
    hidden = Hidden((paths.config, paths.data, paths.cache, paths.logs))
    if sys.platform == "linux":
        return _on_linux(hidden)
    if sys.platform == "darwin":
        return _on_macos(hidden)
    if sys.platform == "win32":
        from worker_core.jobs.sandbox.job_object import JobObject

        return JobObject(detail="Windows lets a program keep a job together, but not from your files, without rights.")
    return ProcessGroup(detail="This system has no sandbox that Stoker knows.")


if sys.platform == "linux":
    from worker_core.jobs.sandbox.bounds import Bounds
    from worker_core.jobs.sandbox.bubblewrap import Bubblewrap
    from worker_core.jobs.sandbox.control_groups import find_control_groups

    def _on_linux(hidden: Hidden) -> Containment:
        bounds = Bounds(find_control_groups())
        if bounds.groups is not None:
            bounds.groups.sweep()
        program = shutil.which("bwrap")
        if program is None:
            return ProcessGroup(_MISSING.format(cure=_CURE), bounds)
        found = Bubblewrap(Path(program), bounds, hidden)
        words = try_containment(found)
        if words is None:
            return found
        log.warning("bubblewrap is there and does not work: %s", words)
        if any(part in words for part in _RIGHTS):
            return ProcessGroup(_NO_USER_NAMESPACES.format(words=words), bounds)
        return ProcessGroup(f"bubblewrap does not work here: {words}.", bounds)


if sys.platform == "darwin":
    from worker_core.jobs.sandbox.seatbelt import Seatbelt

    def _on_macos(hidden: Hidden) -> Containment:
        found = Seatbelt(hidden=hidden)
        if not found.program.exists():
            return ProcessGroup("This macOS has no sandbox-exec, so nothing keeps a job from your files.")
        words = try_containment(found)
        return found if words is None else ProcessGroup(f"sandbox-exec does not work here: {words}.")


def try_containment(containment: Containment) -> str | None:
    """Start the smallest program contained as a job would be; returns why that failed, None when it works."""
    with tempfile.TemporaryDirectory(prefix="stoker-try-") as folder:
        cell = Cell(
            workspace=Path(folder).resolve(),
            attempt_id=_TRIAL,
            devices=None,
            network=False,
            memory_bytes=1 << 28,
            processes=64,
        )
        for limit_s in _TRY_S:
            words = _try_once(containment, cell, limit_s)
            if words is None:
                return None
            if words:
                return words[:_MAX_WORDS]
    return f"it did not start within {_TRY_S[-1]:.0f} s"


def _try_once(containment: Containment, cell: Cell, limit_s: float) -> str | None:
    """Return None when it worked, else what was said; nothing was said when the time was over."""
    with containment.launch(cell) as launch, tempfile.TemporaryFile() as said:
        process = spawn(launch.wrap(["/usr/bin/true"]), env=clean_environment(), stderr=said, inherit=launch.inherit)
        # All of it: a sandbox whose outer process alone is killed waits for it for ever.
        watchdog = threading.Timer(limit_s, end_tree, (identify(process.pid), _TRIAL), {"limit_s": 1.0})
        watchdog.start()
        try:
            held = launch.release(process)
            code = process.wait()
            held.close()
        except OSError as error:
            code, failed = process.wait(), str(error)
        else:
            failed = f"it ended with exit code {code}"
        finally:
            watchdog.cancel()
        said.seek(0)
        words = said.read(4 * _MAX_WORDS).decode(errors="replace").strip()
    if code == 0:
        return None
    return "" if code == _KILLED else words or failed
