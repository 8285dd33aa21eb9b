"""Whether this process runs where a GPU cannot be reached, whatever the hardware: some kinds of system services."""

import os
import subprocess
import sys

from worker_core.machine.spawn import run_briefly

_ASK_S = 5.0


def gpu_session_obstacle() -> str:
    """Return why programs of this session get no GPU, with the cure; empty where they do."""
    if sys.platform == "win32":
        return of_windows_session(_windows_session())
    if sys.platform == "darwin":
        return of_macos_domain(_macos_domain())
    return ""


def of_windows_session(session: int) -> str:
    """Judge the number of a Windows session: services live in session 0, which has no desktop and no GPU."""
    if session != 0:
        return ""
    return (
        "The worker runs as a Windows service, where programs get no GPU. "
        "Let it start when you log on instead: remove the service, then start Stoker from the desktop."
    )


def of_macos_domain(name: str) -> str:
    """Judge the launchd domain of this process, as ``launchctl managername`` names it."""
    if name not in ("System", "LoginWindow"):
        return ""
    return (
        "The worker runs as a system daemon, where programs get no GPU. "
        "Let it start when you log on instead: install it as an agent of your account."
    )


def _macos_domain() -> str:
    try:
        answer = run_briefly(["/bin/launchctl", "managername"], timeout_s=_ASK_S)
    except (OSError, subprocess.SubprocessError):
        return ""  # unknown is not an obstacle: the test of the GPU itself tells
    return answer.stdout.decode(errors="replace").strip()


if sys.platform == "win32":

    def _windows_session() -> int:
        import ctypes

        session = ctypes.c_ulong(1)
        known = ctypes.windll.kernel32.ProcessIdToSessionId(os.getpid(), ctypes.byref(session))
        return int(session.value) if known else 1

else:

    def _windows_session() -> int:
        return 1
