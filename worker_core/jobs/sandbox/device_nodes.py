"""Device files of a job's own, for a worker that runs as root.

A job that belongs to root owns the machine's device files too, and could take away their rights for everybody: they
cannot be mounted read-only without ceasing to be devices. It is given copies, which go with its workspace.
"""

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from worker_core.machine.atomic_files import private_folder

log = logging.getLogger(__name__)

PLAIN = ("null", "zero", "full", "random", "urandom", "tty")
"""Those that every program takes for granted."""


def copy_nodes(nodes: Iterable[Path], folder: Path) -> dict[Path, Path]:
    """Return for each device file its copy in ``folder``; nothing where such files may not be made or not be opened."""
    copies: dict[Path, Path] = {}
    try:
        private_folder(folder)
        for node in nodes:
            found = node.stat()
            if stat.S_ISCHR(found.st_mode):
                copies[node] = _copy(found, folder / node.name)
        _must_open(copies)
    except OSError as error:
        log.warning("a job gets the device files of the machine and, as root, may change their rights: %s", error)
        return {}
    return copies


def _copy(found: os.stat_result, copy: Path) -> Path:
    copy.unlink(missing_ok=True)
    os.mknod(copy, stat.S_IFCHR | stat.S_IRUSR, found.st_rdev)
    copy.chmod(stat.S_IMODE(found.st_mode))  # mknod heeds the umask
    return copy


def _must_open(copies: dict[Path, Path]) -> None:
    """Raise OSError where the disk is mounted so that no device file on it works."""
    for copy in copies.values():
        if copy.name == "null":
            os.close(os.open(copy, os.O_RDWR))
