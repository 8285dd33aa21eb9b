"""How this desktop is started by the system: program, options and home."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from worker_core.machine.paths import Paths
from worker_core.machine.spawn import stoker_command


@dataclass(frozen=True)
class Start:
    """What is to be started: a command line and the home it belongs to, when that is not the usual one."""

    command: tuple[str, ...]
    home: str | None = None
    name: str = "stoker"
    """What the entry is called; each home has its own."""


def start_of(paths: Paths) -> Start:
    """Return how this desktop is started again: without a window, and with the home it has now."""
    command = _without_console(stoker_command("app", "--background"))
    home = os.environ.get("STOKER_HOME")
    if not home:
        return Start(tuple(command))
    return Start(tuple(command), str(Path(home).expanduser().absolute()), f"stoker-{paths.identity}")


def _without_console(command: Sequence[str]) -> list[str]:
    """On Windows ``python.exe`` would open a console window; ``pythonw.exe`` beside it does not."""
    program = Path(command[0])
    windowed = program.with_name("pythonw.exe")
    if sys.platform == "win32" and program.name.lower() == "python.exe" and windowed.exists():
        return [str(windowed), *command[1:]]
    return list(command)
