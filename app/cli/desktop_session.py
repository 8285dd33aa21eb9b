"""Whether the desktop would have a display and a tray here, found out without loading Qt."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

_WATCHER = "org.kde.StatusNotifierWatcher"
_BUS_S = 2.0


@dataclass(frozen=True)
class SessionFault:
    """Something of a desktop session that is missing."""

    name: str
    text: str
    cure: str


def session_faults(environment: Mapping[str, str]) -> list[SessionFault]:
    """Return what the desktop would miss in this session."""
    if not sys.platform.startswith("linux"):
        return []
    if not environment.get("DISPLAY") and not environment.get("WAYLAND_DISPLAY"):
        text = "This session has no display, so stoker app cannot run."
        return [SessionFault("display", text, "Nothing to do on a server: stoker run needs none.")]
    if not _has_tray_host(environment):
        text = "No tray shows icons in this desktop; stoker app opens a status window instead."
        return [SessionFault("tray", text, "On GNOME, install the AppIndicator extension.")]
    return []


def _has_tray_host(environment: Mapping[str, str]) -> bool:
    """Ask the session bus whether a tray host is there; an old X11 tray needs none and counts by its desktop."""
    if not environment.get("DBUS_SESSION_BUS_ADDRESS"):
        return False
    jeepney, blocking = _bus_library()
    bus = jeepney.DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
    question = jeepney.new_method_call(bus, "NameHasOwner", "s", (_WATCHER,))
    try:
        with blocking.open_dbus_connection("SESSION") as connection:
            return bool(connection.send_and_get_reply(question, timeout=_BUS_S).body[0])
    except (OSError, TimeoutError):
        return False


def _bus_library() -> tuple[Any, Any]:
    """Load the D-Bus library, which exists on Linux only and has no types."""
    return import_module("jeepney"), import_module("jeepney.io.blocking")
