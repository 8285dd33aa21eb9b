"""Which Python runs the jobs: the one resolver."""

import importlib.util
import site
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class RuntimeMissing(Exception):
    """No Python with torch is there to run jobs; the text says what to do."""


@dataclass(frozen=True)
class Runtime:
    """How a job process is started; its own arguments follow ``command``."""

    command: tuple[str, ...]
    probe: tuple[str, ...] = ()
    """How the test of a GPU is started; empty where there is none."""
    readable: tuple[Path, ...] = ()
    """What a contained job has to read of it: its installation, and our code for jobs."""


def find_runtime() -> Runtime:
    """Return the Python that runs jobs: ours, in an installation from source. Raises :class:`RuntimeMissing`."""
    if getattr(sys, "frozen", False):
        raise RuntimeMissing("This installed app has no training runtime. Install Stoker with pip to run jobs here.")
    if importlib.util.find_spec("torch") is None:
        raise RuntimeMissing(f"{sys.executable} has no torch. Install it there: pip install 'stoker[training]'.")
    # -I keeps the person's PYTHON* variables and user packages out, -u keeps the last line before a crash.
    python = (sys.executable, "-I", "-u", "-m")
    return Runtime((*python, "worker_core.training"), (*python, "worker_core.training.probe"), python_folders())


def python_folders() -> tuple[Path, ...]:
    """Return the folders of this Python and of our package, which may lie elsewhere."""
    here = Path(__file__).resolve().parents[1]
    prefixes = dict.fromkeys(Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix))
    outside = [folder for folder in (*_packages_of_others(), here) if not _lies_in(folder, prefixes)]
    return tuple(dict.fromkeys([*prefixes, *outside]))


def _packages_of_others() -> list[Path]:
    """Return package folders that ``.pth`` files of this Python name; a person's own are not for jobs (``-I``)."""
    entries = [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    return [entry for entry in entries if entry.is_dir() and entry != Path(site.getusersitepackages())]


def _lies_in(folder: Path, prefixes: Iterable[Path]) -> bool:
    return any(folder.resolve().is_relative_to(prefix.resolve()) for prefix in prefixes)
