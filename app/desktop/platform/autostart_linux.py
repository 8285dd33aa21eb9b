"""Autostart on Linux: a desktop entry in the session's own folder.

https://specifications.freedesktop.org/autostart-spec/latest/ and
https://specifications.freedesktop.org/desktop-entry-spec/latest/exec-variables.html
"""

import os
import re
from pathlib import Path

from app.desktop.platform.entry_file import EntryFile
from app.desktop.platform.start import Start

_OFF = re.compile(r"^\s*(Hidden\s*=\s*true|X-GNOME-Autostart-enabled\s*=\s*false)\s*$", re.MULTILINE | re.IGNORECASE)


class DesktopEntry(EntryFile):
    """``autostart/stoker.desktop`` in the person's configuration."""

    def __init__(self, start: Start, folder: Path | None = None) -> None:
        self._start = start
        super().__init__((folder or _config_folder() / "autostart") / f"{start.name}.desktop")

    def is_off(self) -> bool:
        """Whether the session's settings hid or disabled it."""
        return _OFF.search(self.read() or "") is not None

    def expected(self) -> str:
        """Return the entry for the program that runs now."""
        command = self._start.command
        if self._start.home is not None:
            command = ("env", f"STOKER_HOME={self._start.home}", *command)
        return (
            "[Desktop Entry]\n"
            "Type=Application\n"
            "Name=Stoker\n"
            "Comment=Lets this computer train jobs from a coordinator\n"
            f"Exec={' '.join(quote(part) for part in command)}\n"
            "Icon=stoker\n"
            "Terminal=false\n"
            "StartupNotify=false\n"
            "X-GNOME-Autostart-enabled=true\n"
        )


def quote(argument: str) -> str:
    """Quote one argument of ``Exec``: once for the command line, once for the file, and ``%`` is no field code."""
    for character in ("\\", '"', "`", "$"):
        argument = argument.replace(character, f"\\{character}")
    quoted = f'"{argument}"' if re.search(r"[^\w@+,./:=-]", argument) or not argument else argument
    return quoted.replace("\\", "\\\\").replace("%", "%%")


def _config_folder() -> Path:
    given = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".config"
