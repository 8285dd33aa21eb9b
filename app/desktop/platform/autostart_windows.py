"""Autostart on Windows: a value below the person's Run key.

https://learn.microsoft.com/windows/win32/setupapi/run-and-runonce-registry-keys; what the task manager switched off
stands below StartupApproved, in a value whose first byte is odd.
"""

import subprocess
import sys

from app.desktop.platform.start import Start

if sys.platform == "win32":
    import winreg

    _RUN = r"Software\Microsoft\Windows\CurrentVersion\Run"
    _APPROVED = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"

    class RunKey:
        """The value of this home."""

        def __init__(self, start: Start) -> None:
            self._start = start

        def read(self) -> str | None:
            """Return the stored command line."""
            value = _value(_RUN, self._start.name)
            return value if isinstance(value, str) else None

        def is_off(self) -> bool:
            """Whether the task manager or the settings switched it off."""
            value = _value(_APPROVED, self._start.name)
            return isinstance(value, bytes) and bool(value) and value[0] % 2 == 1

        def expected(self) -> str:
            """Return the command line of the program that runs now; the home of a second worker is passed on by cmd."""
            line = subprocess.list2cmdline(self._start.command)
            if self._start.home is None:
                return line
            return f'cmd /d /c "set "STOKER_HOME={self._start.home}" && start "" {line}"'

        def write(self) -> None:
            """Store the command line."""
            with winreg.CreateKey(winreg.HKEY_CURRENT_USER, _RUN) as key:
                winreg.SetValueEx(key, self._start.name, 0, winreg.REG_SZ, self.expected())

        def remove(self) -> None:
            """Take the value away."""
            try:
                with winreg.OpenKey(winreg.HKEY_CURRENT_USER, _RUN, 0, winreg.KEY_SET_VALUE) as key:
                    winreg.DeleteValue(key, self._start.name)
            except FileNotFoundError:
                return  # it is gone already

    def _value(key_name: str, name: str) -> object:
        try:
            with winreg.OpenKey(winreg.HKEY_CURRENT_USER, key_name) as key:
                return winreg.QueryValueEx(key, name)[0]
        except FileNotFoundError:
            return None
