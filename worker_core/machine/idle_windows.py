"""Idleness on Windows: https://learn.microsoft.com/windows/win32/api/winuser/nf-winuser-getlastinputinfo."""

import sys

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    class _LastInput(ctypes.Structure):
        _fields_ = (("size", wintypes.UINT), ("at_ms", wintypes.DWORD))

    def last_input_s() -> float | None:
        """Return the seconds since the last input of this session; both counts go round after 49 days."""
        found = _LastInput(ctypes.sizeof(_LastInput), 0)
        if not ctypes.windll.user32.GetLastInputInfo(ctypes.byref(found)):
            return None
        return ((ctypes.windll.kernel32.GetTickCount() - found.at_ms) & 0xFFFFFFFF) / 1000
