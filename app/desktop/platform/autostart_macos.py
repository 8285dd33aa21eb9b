"""Autostart on macOS: a launch agent of the person, read at the next log-in.

https://developer.apple.com/library/archive/documentation/MacOSX/Conceptual/BPSystemStartup/Chapters/CreatingLaunchdJobs.html
"""

import plistlib
from pathlib import Path
from xml.parsers.expat import ExpatError

from app.desktop.platform.start import Start
from worker_core.machine.atomic_files import write_file

MAX_BYTES = 64 * 1024


class LaunchAgent:
    """``~/Library/LaunchAgents/org.stoker.….plist``."""

    def __init__(self, start: Start, folder: Path | None = None) -> None:
        self._start = start
        self._label = f"org.stoker.desktop.{start.name}"
        self.path = (folder or Path.home() / "Library" / "LaunchAgents") / f"{self._label}.plist"

    def read(self) -> str | None:
        """Return the agent's text."""
        try:
            with self.path.open("rb") as file:
                return file.read(MAX_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            return None

    def is_off(self) -> bool:
        """Whether the agent says so itself; what the system's settings switch off is kept and obeyed elsewhere."""
        try:
            return bool(plistlib.loads((self.read() or "").encode()).get("Disabled"))
        except (plistlib.InvalidFileException, ExpatError, ValueError, AttributeError):
            return False  # not one of ours any more: it is written anew

    def expected(self) -> str:
        """Return the agent for the program that runs now; it is not started again when it ends."""
        agent: dict[str, object] = {
            "Label": self._label,
            "ProgramArguments": list(self._start.command),
            "RunAtLoad": True,
            "KeepAlive": False,
            "ProcessType": "Interactive",
            "LimitLoadToSessionType": "Aqua",
        }
        if self._start.home is not None:
            agent["EnvironmentVariables"] = {"STOKER_HOME": self._start.home}
        return plistlib.dumps(agent).decode()

    def write(self) -> None:
        """Write it whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.path, self.expected().encode())

    def remove(self) -> None:
        """Take it away."""
        self.path.unlink(missing_ok=True)
