"""Sleep as macOS announces it through IOKit; the end of a session comes as TERM, which the core obeys anyway.

``IORegisterForSystemPower`` calls back with *will sleep*, which waits up to 30 s for ``IOAllowPowerChange``, with *can
sleep*, which is allowed at once, and with *has powered on*.
https://developer.apple.com/documentation/iokit/1557114-ioregisterforsystempower
"""

import sys
import threading

from worker_core.machine.power import Tell

_SLEEP_S = 25.0
_STOP_S = 5.0

if sys.platform == "darwin":
    import ctypes
    import ctypes.util

    _CAN_SLEEP, _WILL_SLEEP, _HAS_POWERED_ON = 0xE0000270, 0xE0000280, 0xE0000300
    _iokit = ctypes.CDLL(ctypes.util.find_library("IOKit"))
    _cf = ctypes.CDLL(ctypes.util.find_library("CoreFoundation"))
    _Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
    _iokit.IORegisterForSystemPower.restype = ctypes.c_uint32
    _iokit.IORegisterForSystemPower.argtypes = [
        *(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), _Callback, ctypes.POINTER(ctypes.c_uint32)),
    ]
    _iokit.IOAllowPowerChange.argtypes = [ctypes.c_uint32, ctypes.c_ssize_t]
    _iokit.IODeregisterForSystemPower.argtypes = [ctypes.POINTER(ctypes.c_uint32)]
    _iokit.IONotificationPortGetRunLoopSource.restype = ctypes.c_void_p
    _iokit.IONotificationPortGetRunLoopSource.argtypes = [ctypes.c_void_p]
    _cf.CFRunLoopGetCurrent.restype = ctypes.c_void_p
    _cf.CFRunLoopAddSource.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    _cf.CFRunLoopStop.argtypes = [ctypes.c_void_p]
    _DEFAULT_MODE = ctypes.c_void_p.in_dll(_cf, "kCFRunLoopDefaultMode")

    class MacPower:
        """A run loop in a thread of its own; sleep is allowed when :meth:`ready` was called, or in time."""

        def __init__(self) -> None:
            self._tell: Tell = lambda event: None
            self._ready = threading.Event()
            self._root = 0
            self._loop: int | None = None
            self._thread: threading.Thread | None = None
            self._callback = _Callback(self._on_power)

        def start(self, tell: Tell) -> None:
            """Begin to listen."""
            self._tell = tell
            self._thread = threading.Thread(target=self._listen, name="power events", daemon=True)
            self._thread.start()

        def ready(self) -> None:
            """Let what was announced happen."""
            self._ready.set()

        def stop(self) -> None:
            """End the run loop."""
            self.ready()
            if self._loop is not None:
                _cf.CFRunLoopStop(self._loop)
            if self._thread is not None:
                self._thread.join(_STOP_S)

        def _listen(self) -> None:
            port, notifier = ctypes.c_void_p(), ctypes.c_uint32()
            self._root = _iokit.IORegisterForSystemPower(
                None, ctypes.byref(port), self._callback, ctypes.byref(notifier)
            )
            if not self._root:
                return  # the jump of the clock still tells of sleep
            self._loop = _cf.CFRunLoopGetCurrent()
            source = _iokit.IONotificationPortGetRunLoopSource(port)
            _cf.CFRunLoopAddSource(self._loop, source, _DEFAULT_MODE)
            _cf.CFRunLoopRun()
            _iokit.IODeregisterForSystemPower(ctypes.byref(notifier))

        def _on_power(self, context: int | None, service: int, message: int, argument: int | None) -> None:
            if message == _WILL_SLEEP:
                self._ready.clear()
                self._tell("sleep-coming")
                self._ready.wait(_SLEEP_S)
            if message in (_WILL_SLEEP, _CAN_SLEEP):
                _iokit.IOAllowPowerChange(self._root, argument or 0)
            elif message == _HAS_POWERED_ON:
                self._tell("woke")
