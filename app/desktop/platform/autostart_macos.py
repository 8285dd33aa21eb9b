"""Autostart on macOS: a launch agent of the person, read at the next log-in.

https://developer.apple.com/library/archive/documentation/MacOSX/Conceptual/BPSystemStartup/Chapters/CreatingLaunchdJobs.html
"""

import plistlib
from pathlib import Path
from xml.parsers.expat import ExpatError

from app.desktop.platform.entry_file import EntryFile
from app.desktop.platform.start import Start


class LaunchAgent(EntryFile):
    """``~/Library/LaunchAgents/org.stoker.….plist``."""

    def __init__(self, start: Start, folder: Path | None = None) -> None:
        self._start = start
        self._label = f"org.stoker.desktop.{start.name}"
        super().__init__((folder or Path.home() / "Library" / "LaunchAgents") / f"{self._label}.plist")

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
