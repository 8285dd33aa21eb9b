"""Idleness as Linux desktops tell it: GNOME, the screen saver service of the others, and plain X11.

https://specifications.freedesktop.org/idle-inhibit-spec/latest/ names the service; ``org.gnome.Mutter.IdleMonitor``
and ``XScreenSaverQueryInfo`` (https://www.x.org/releases/current/doc/man/man3/Xss.3.xhtml) speak for themselves.
"""

import ctypes
import ctypes.util
import os
from importlib import import_module
from typing import Any

_ANSWER_S = 2.0


def mutter_s() -> float | None:
    """Return GNOME's idleness, on X11 and Wayland."""
    body = _ask("org.gnome.Mutter.IdleMonitor", "/org/gnome/Mutter/IdleMonitor/Core", "GetIdletime")
    return None if body is None else float(body[0]) / 1000


class ScreenSaver:
    """What KDE and others tell in milliseconds. Under Wayland, KDE's service says 0 whatever happens (KWin's
    ``KWinIdleTimePoller::forcePollRequest``), so there it is believed only once it has said something else.
    """

    def __init__(self) -> None:
        self._believed = not os.environ.get("WAYLAND_DISPLAY")

    def __call__(self) -> float | None:
        """Return the idleness in seconds."""
        body = _ask("org.freedesktop.ScreenSaver", "/org/freedesktop/ScreenSaver", "GetSessionIdleTime")
        seconds = None if body is None else float(body[0]) / 1000
        self._believed = self._believed or bool(seconds)
        return seconds if self._believed else None


def _ask(service: str, path: str, member: str) -> tuple[Any, ...] | None:
    """Call a method on the session bus; None where bus, service or method are missing."""
    if not os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return None
    jeepney, blocking = import_module("jeepney"), import_module("jeepney.io.blocking")
    with blocking.open_dbus_connection(bus="SESSION") as line:
        where = jeepney.DBusAddress(path, bus_name=service, interface=service)
        answer = line.send_and_get_reply(jeepney.new_method_call(where, member), timeout=_ANSWER_S)
        if answer.header.message_type is jeepney.MessageType.error:
            return None
        return answer.body


class _Info(ctypes.Structure):
    _fields_ = (
        ("window", ctypes.c_ulong),
        ("state", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("til_or_since", ctypes.c_ulong),
        ("idle", ctypes.c_ulong),
        ("event_mask", ctypes.c_ulong),
    )


def x11_s() -> float | None:
    """Return the idleness of the X server; under Wayland it sees only some windows, so it is not asked there."""
    if not os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return None
    x11, xss = ctypes.util.find_library("X11"), ctypes.util.find_library("Xss")
    if x11 is None or xss is None:
        return None
    server, saver = ctypes.CDLL(x11), ctypes.CDLL(xss)
    server.XOpenDisplay.restype = ctypes.c_void_p
    server.XOpenDisplay.argtypes = [ctypes.c_char_p]
    server.XDefaultRootWindow.restype = ctypes.c_ulong
    server.XDefaultRootWindow.argtypes = [ctypes.c_void_p]
    server.XCloseDisplay.argtypes = [ctypes.c_void_p]
    saver.XScreenSaverQueryInfo.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.POINTER(_Info)]
    display = server.XOpenDisplay(None)
    if not display:
        return None
    try:
        info = _Info()
        if not saver.XScreenSaverQueryInfo(display, server.XDefaultRootWindow(display), ctypes.byref(info)):
            return None
        return info.idle / 1000
    finally:
        server.XCloseDisplay(display)
