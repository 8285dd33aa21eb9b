"""Which Python runs the jobs: the one resolver."""

import importlib.util
import sys
from dataclasses import dataclass


class RuntimeMissing(Exception):
    """No Python with torch is there to run jobs; the text says what to do."""


@dataclass(frozen=True)
class Runtime:
    """How a job process is started; its own arguments follow ``command``."""

    command: tuple[str, ...]


def find_runtime() -> Runtime:
    """Return the Python that runs jobs: ours, in an installation from source. Raises :class:`RuntimeMissing`."""
    if getattr(sys, "frozen", False):
        raise RuntimeMissing("This installed app has no training runtime. Install Stoker with pip to run jobs here.")
    if importlib.util.find_spec("torch") is None:
        raise RuntimeMissing(f"{sys.executable} has no torch. Install it there: pip install 'stoker[training]'.")
    # -I keeps the person's PYTHON* variables and user packages out, -u keeps the last line before a crash.
    return Runtime((sys.executable, "-I", "-u", "-m", "worker_core.training"))
