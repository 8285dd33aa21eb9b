"""Starting with the session: what stands in the system's own place for it, and what has to be done about it."""

import sys
from typing import Literal, Protocol

from app.desktop.platform.start import Start


class Entry(Protocol):
    """The one entry of this home in the system's list."""

    def read(self) -> str | None:
        """Return what stands there, or None when nothing does; raises OSError."""
        ...

    def is_off(self) -> bool:
        """Whether a person switched the entry off by the system's own means."""
        ...

    def expected(self) -> str:
        """Return what should stand there."""
        ...

    def write(self) -> None:
        """Write what should stand there; raises OSError."""
        ...

    def remove(self) -> None:
        """Take the entry away; raises OSError."""
        ...


Found = Literal["right", "written", "removed", "absent", "switched-off"]


def settle(entry: Entry, *, wanted: bool) -> Found:
    """Make the entry what it should be: a stored path that is no longer ours is corrected; raises OSError.

    An entry that a person switched off in the system's settings is left so, and reported as ``switched-off``.
    """
    stands = entry.read()
    if not wanted:
        if stands is None:
            return "absent"
        entry.remove()
        return "removed"
    if stands is not None and entry.is_off():
        return "switched-off"
    if stands == entry.expected():
        return "right"
    entry.write()
    return "written"


def entry_of(start: Start) -> Entry:
    """Return the place of this system."""
    if sys.platform == "win32":
        from app.desktop.platform.autostart_windows import RunKey

        return RunKey(start)
    if sys.platform == "darwin":
        from app.desktop.platform.autostart_macos import LaunchAgent

        return LaunchAgent(start)
    from app.desktop.platform.autostart_linux import DesktopEntry

    return DesktopEntry(start)
