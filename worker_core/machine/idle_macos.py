"""Idleness on macOS: https://developer.apple.com/documentation/coregraphics/cgeventsource/secondssincelasteventtype(_:eventtype:)."""

import ctypes

_FRAMEWORK = "/System/Library/Frameworks/ApplicationServices.framework/ApplicationServices"
_COMBINED_SESSION, _ANY_INPUT = 0, 0xFFFFFFFF


def last_input_s() -> float | None:
    """Return the seconds since the last key or movement of the mouse."""
    services = ctypes.CDLL(_FRAMEWORK)
    ask = services.CGEventSourceSecondsSinceLastEventType
    ask.restype = ctypes.c_double
    ask.argtypes = [ctypes.c_int32, ctypes.c_uint32]
    return float(ask(_COMBINED_SESSION, _ANY_INPUT))
