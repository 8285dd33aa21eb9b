"""Scripted readings for real processes: a worker's clock, disk and GPUs, a coordinator's clock, a small real disk."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from worker_core.machine.atomic_files import write_file


class ScriptedReadings:
    """The file that ``STOKER_SCRIPTED_SOURCES`` names for one worker."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._says: dict[str, Any] = {}
        self.say()

    def say(self, **readings: object) -> None:
        """Change some readings; None gives one back to the machine."""
        self._says.update(readings)
        told = {name: value for name, value in self._says.items() if value is not None}
        write_file(self.path, json.dumps(told).encode())

    def sleep(self, seconds: float) -> None:
        """Let the machine have slept so long, all at once."""
        self.say(clock_offset_s=self._says.get("clock_offset_s", 0.0) + seconds)


class CoordinatorClock:
    """The file that ``clock_file`` names in a coordinator's settings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset_s = 0.0
        self.move(0.0)

    def move(self, seconds: float) -> None:
        """Let the coordinator's clock jump. It never runs backwards in one life of a coordinator."""
        self.offset_s += seconds
        write_file(self.path, json.dumps({"offset_s": self.offset_s}).encode())


class SmallDisk:
    """A file system of a few megabytes that a test can fill, where the system lets us mount one."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        self.mounted = False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if can_mount():
            options = f"size={megabytes}m,mode=0700"
            command = ["mount", "-t", "tmpfs", "-o", options, "stoker-test", str(folder)]
            self.mounted = subprocess.run(command, capture_output=True, timeout=30).returncode == 0

    def fill(self) -> None:
        """Leave no byte free. Only on a file system of its own."""
        assert self.mounted
        with self._ballast.open("ab") as file:
            for size in (1 << 20, 1 << 12, 1):
                _write_until_full(file.fileno(), bytes(size))

    def empty(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Take the file system away, with all that is in it."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], capture_output=True, timeout=30)
            self.mounted = False


def can_mount() -> bool:
    """Whether this process may mount a file system, as far as can be told beforehand."""
    return sys.platform == "linux" and os.geteuid() == 0


def _write_until_full(descriptor: int, block: bytes) -> None:
    try:
        while True:
            os.write(descriptor, block)
    except OSError:
        return  # full, which is what was wanted
