"""Encrypts a file's content for the person who is logged in, where the system offers that without a password."""

import sys
from collections.abc import Callable

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    class _Blob(ctypes.Structure):
        _fields_ = [("size", wintypes.DWORD), ("bytes", ctypes.POINTER(ctypes.c_char))]

    def protect(data: bytes) -> bytes:
        """Return ``data`` encrypted by DPAPI."""
        return _call(ctypes.windll.crypt32.CryptProtectData, data)

    def unprotect(data: bytes) -> bytes:
        """Return what :func:`protect` was given; raises OSError for another person or computer."""
        return _call(ctypes.windll.crypt32.CryptUnprotectData, data)

    def _call(function: Callable[..., int], data: bytes) -> bytes:
        given = _Blob(len(data), ctypes.create_string_buffer(data, len(data)))
        result = _Blob()
        if not function(ctypes.byref(given), None, None, None, None, 0, ctypes.byref(result)):
            raise ctypes.WinError()
        try:
            return ctypes.string_at(result.bytes, result.size)
        finally:
            ctypes.windll.kernel32.LocalFree(result.bytes)

else:

    def protect(data: bytes) -> bytes:
        """Return ``data``: outside Windows the file's mode protects it."""
        return data

    def unprotect(data: bytes) -> bytes:
        """Return ``data``."""
        return data
