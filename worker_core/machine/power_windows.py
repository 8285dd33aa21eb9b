"""Sleep and the end of the session as Windows announces them to a window that nobody sees.

A program without a window hears nothing of either. ``WM_QUERYENDSESSION`` is answered only when we are ready, with a
reason shown to the person meanwhile; ``WM_POWERBROADCAST`` says suspend (there are 2 s) and resume.
https://learn.microsoft.com/windows/win32/shutdown/wm-queryendsession,
https://learn.microsoft.com/windows/win32/power/wm-powerbroadcast
"""

import sys
import threading

from worker_core.machine.power import PowerEvent, Tell

_SUSPEND_S = 1.8
_END_S = 4.5
"""How long an announcement is left unanswered: Windows calls a window that is silent for 5 s hung."""
_REASON = "Stoker saves a checkpoint of the running job"

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _WM_DESTROY, _WM_CLOSE, _WM_QUERYENDSESSION, _WM_ENDSESSION, _WM_POWERBROADCAST = 0x02, 0x10, 0x11, 0x16, 0x218
    _PBT_APMSUSPEND, _PBT_APMRESUMEAUTOMATIC = 0x04, 0x12
    _user32 = ctypes.WinDLL("user32", use_last_error=True)
    _kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    _Procedure = ctypes.WINFUNCTYPE(ctypes.c_ssize_t, wintypes.HWND, wintypes.UINT, wintypes.WPARAM, wintypes.LPARAM)
    _user32.DefWindowProcW.argtypes = [wintypes.HWND, wintypes.UINT, wintypes.WPARAM, wintypes.LPARAM]
    _user32.DefWindowProcW.restype = ctypes.c_ssize_t
    _user32.CreateWindowExW.restype = wintypes.HWND
    _user32.CreateWindowExW.argtypes = [
        *(wintypes.DWORD, wintypes.LPCWSTR, wintypes.LPCWSTR, wintypes.DWORD),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        *(wintypes.HWND, wintypes.HMENU, wintypes.HINSTANCE, wintypes.LPVOID),
    ]
    _user32.PostMessageW.argtypes = [wintypes.HWND, wintypes.UINT, wintypes.WPARAM, wintypes.LPARAM]
    _user32.DestroyWindow.argtypes = [wintypes.HWND]
    _user32.ShutdownBlockReasonCreate.argtypes = [wintypes.HWND, wintypes.LPCWSTR]
    _user32.ShutdownBlockReasonDestroy.argtypes = [wintypes.HWND]
    _kernel32.GetModuleHandleW.argtypes = [wintypes.LPCWSTR]
    _kernel32.GetModuleHandleW.restype = wintypes.HMODULE

    class _WindowClass(ctypes.Structure):
        _fields_ = (
            ("style", wintypes.UINT),
            ("procedure", _Procedure),
            ("class_extra", ctypes.c_int),
            ("window_extra", ctypes.c_int),
            ("instance", wintypes.HINSTANCE),
            ("icon", wintypes.HICON),
            ("cursor", wintypes.HANDLE),
            ("background", wintypes.HBRUSH),
            ("menu_name", wintypes.LPCWSTR),
            ("class_name", wintypes.LPCWSTR),
        )

    class WindowsPower:
        """A hidden window in a thread of its own; a message is answered when :meth:`ready` was called, or in time."""

        def __init__(self) -> None:
            self._tell: Tell = lambda event: None
            self._ready = threading.Event()
            self._window: int | None = None
            self._thread: threading.Thread | None = None
            self._procedure = _Procedure(self._on_message)

        def start(self, tell: Tell) -> None:
            """Begin to listen."""
            self._tell = tell
            self._thread = threading.Thread(target=self._listen, name="power messages", daemon=True)
            self._thread.start()

        def ready(self) -> None:
            """Let what was announced happen."""
            self._ready.set()

        def stop(self) -> None:
            """Close the window."""
            self.ready()
            if self._window is not None:
                _user32.PostMessageW(self._window, _WM_CLOSE, 0, 0)
            if self._thread is not None:
                self._thread.join(_END_S)

        def _listen(self) -> None:
            instance, name = _kernel32.GetModuleHandleW(None), "Stoker power messages"
            described = _WindowClass(procedure=self._procedure, instance=instance, class_name=name)
            _user32.RegisterClassW(ctypes.byref(described))
            # A top-level window, never shown: windows that are for messages only get no broadcasts.
            self._window = _user32.CreateWindowExW(0, name, name, 0, 0, 0, 0, 0, None, None, instance, None)
            message = wintypes.MSG()
            while _user32.GetMessageW(ctypes.byref(message), None, 0, 0) > 0:
                _user32.DispatchMessageW(ctypes.byref(message))

        def _on_message(self, window: int, message: int, word: int, long: int) -> int:
            if message == _WM_POWERBROADCAST and word == _PBT_APMSUSPEND:
                self._announce("sleep-coming", _SUSPEND_S)
                return 1
            if message == _WM_POWERBROADCAST and word == _PBT_APMRESUMEAUTOMATIC:
                self._tell("woke")
                return 1
            if message == _WM_QUERYENDSESSION:
                _user32.ShutdownBlockReasonCreate(window, _REASON)
                return 1
            if message == _WM_ENDSESSION and word:
                self._announce("end-coming", _END_S)
                _user32.ShutdownBlockReasonDestroy(window)
                return 0
            if message == _WM_CLOSE:
                _user32.DestroyWindow(window)
                return 0
            if message == _WM_DESTROY:
                _user32.PostQuitMessage(0)
                return 0
            return _user32.DefWindowProcW(window, message, word, long)

        def _announce(self, event: PowerEvent, wait_s: float) -> None:
            """Tell, and hold the answer back until we are ready."""
            self._ready.clear()
            self._tell(event)
            self._ready.wait(wait_s)
