"""Checks that windows can be opened here, before Qt is asked: Qt ends the process when they cannot."""

import ctypes
import os
import re
import socket
import sys
from collections.abc import Mapping

_LOCAL_DISPLAY = re.compile(r"^(?:unix)?:(\d+)(?:\.\d+)?$")
_XCB_LIBRARIES = ("libxcb-cursor.so.0", "libxcb-icccm.so.4", "libxcb-keysyms.so.1", "libxkbcommon-x11.so.0")
_INSTALL = (
    "sudo apt install libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-render-util0 "
    "libxkbcommon-x11-0 libxcb-shape0 libegl1 libgl1"
)
CONNECT_TIMEOUT_S = 2.0


def missing_display(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return why no window can be opened and what to do, or None when one can."""
    if not sys.platform.startswith("linux") or environment.get("QT_QPA_PLATFORM", "xcb").split(":")[0] != "xcb":
        return None
    if environment.get("WAYLAND_DISPLAY"):
        return None
    display = environment.get("DISPLAY")
    if not display:
        return (
            "There is no display here: neither DISPLAY nor WAYLAND_DISPLAY is set. Log in to a desktop, "
            "or use “stoker run” and “stoker pair”, which need none."
        )
    if not _answers(display):
        return (
            f"The display {display} does not answer. Check DISPLAY, or use “stoker run” and “stoker pair”, "
            "which need none."
        )
    return _missing_library()


def _answers(display: str) -> bool:
    """Tell whether a local X server listens; a remote one is left to Qt."""
    local = _LOCAL_DISPLAY.match(display)
    if local is None:
        return True
    path = f"/tmp/.X11-unix/X{local.group(1)}"
    return any(_connects(address) for address in (path, f"\0{path}"))


def _connects(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_TIMEOUT_S)
        return probe.connect_ex(address) == 0


def _missing_library() -> str | None:
    for name in _XCB_LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            return f"The library {name} is missing, which Qt needs to open windows. On Debian or Ubuntu: {_INSTALL}"
    return None
