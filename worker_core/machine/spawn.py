"""The one way to start another program: a cleaned environment, no inherited files, a session of its own.

A program that we start sees the variables named here and nothing else, so that no credential and no path of a frozen
app reaches it. This module loads neither asyncio nor anything slow, because the desktop uses it too.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from worker_core.machine.adoption import birth, register

Stream = int | IO[bytes] | None

_FOR_ANY = re.compile(
    r"""PATH | LANG | LANGUAGE | LC_.* | TZ | USER | LOGNAME | SHELL | TERM | LD_LIBRARY_PATH
    | (OMP|MKL|OPENBLAS)_NUM_THREADS | CUDA_.* | NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES|TF32_OVERRIDE)
    | (HIP|ROCR)_VISIBLE_DEVICES | MUJOCO_(GL|EGL_DEVICE_ID)
    | SYSTEMROOT | WINDIR | SYSTEMDRIVE | COMSPEC | PATHEXT | PROGRAMDATA | PROGRAMFILES
    | NUMBER_OF_PROCESSORS | PROCESSOR_ARCHITECTURE""",
    re.VERBOSE | re.IGNORECASE,
)
_FOR_OURS = re.compile(
    r"""HOME | USERPROFILE | APPDATA | LOCALAPPDATA | TEMP | TMP | TMPDIR | DISPLAY | WAYLAND_DISPLAY | XAUTHORITY
    | DBUS_SESSION_BUS_ADDRESS | DESKTOP_SESSION | (HTTP|HTTPS|NO|ALL)_PROXY | SSL_CERT_(FILE|DIR)
    | (STOKER|XDG|QT)_.*""",
    re.VERBOSE | re.IGNORECASE,
)
_CREATE_SUSPENDED = 0x00000004
_NEVER = frozenset({"STOKER_TOKEN", "STOKER_ATTEMPT"})


@dataclass(frozen=True)
class Finished:
    """How a short program ended; ``code`` is None when it was ended because its time was up."""

    code: int | None
    stdout: bytes
    stderr: bytes


def stoker_command(*args: str) -> list[str]:
    """Return the command line that starts a `stoker` command of this installation."""
    if _is_frozen():
        return [sys.executable, *args]
    return [sys.executable, "-P", "-m", "app.entry", *args]


def coordinator_command(*args: str) -> list[str]:
    """Return the command line that starts a `stoker-coordinator` command of this installation."""
    if _is_frozen():
        beside = Path(sys.executable).with_name("stoker-coordinator")
        return [str(beside.with_suffix(Path(sys.executable).suffix)), *args]
    return [sys.executable, "-P", "-m", "coordinator", *args]


def keystore_command() -> list[str]:
    """Return the command line of the child process that talks to the keystore."""
    if _is_frozen():
        return [sys.executable, "keystore-child"]
    return [sys.executable, "-P", "-m", "worker_core.machine.keystore_child"]


def clean_environment(extra: Mapping[str, str] | None = None, *, own: bool = False) -> dict[str, str]:
    """Return the allowed part of our environment and ``extra``; ``own`` adds what a part of Stoker itself needs."""
    allowed = {name: value for name, value in os.environ.items() if _may_pass(name, own)}
    if _is_frozen():
        # PyInstaller points LD_LIBRARY_PATH into its bundle and keeps the person's own value beside it.
        allowed.pop("LD_LIBRARY_PATH", None)
        if original := os.environ.get("LD_LIBRARY_PATH_ORIG"):
            allowed["LD_LIBRARY_PATH"] = original
    return allowed | dict(extra or {})


def spawn(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.DEVNULL,
    stderr: Stream = subprocess.DEVNULL,
    inherit: Sequence[int] = (),
    detached: bool = True,
    halted: bool = False,
) -> subprocess.Popen[bytes]:
    """Start ``command`` without a shell; ``inherit`` lists the file descriptors (Windows: handles) it keeps.

    ``detached`` gives it a session (Windows: process group) of its own; ``halted`` lets it wait on Windows until it is
    resumed, and means nothing elsewhere. Without ``env`` it is taken for a part of
    Stoker and gets :func:`clean_environment` with ``own``.
    """
    environment = clean_environment(own=True) if env is None else dict(env)
    if sys.platform == "win32":
        how = subprocess.CREATE_NO_WINDOW | (subprocess.CREATE_NEW_PROCESS_GROUP if detached else 0)
        how |= _CREATE_SUSPENDED if halted else 0
        return _spawn_on_windows(list(command), cwd, environment, (stdin, stdout, stderr), list(inherit), how)
    with birth:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            close_fds=True,
            pass_fds=tuple(inherit),
            start_new_session=detached,
        )
        register(process)
    return process


def start_detached(command: Sequence[str]) -> int:
    """Start a part of Stoker that outlives us and return its pid; a thread of its own buries it if it ends first."""
    process = spawn(command)
    threading.Thread(target=process.wait, name=f"reaper of {process.pid}", daemon=True).start()
    return process.pid


def run_briefly(
    command: Sequence[str], *, timeout_s: float, input: bytes = b"", env: Mapping[str, str] | None = None
) -> Finished:
    """Run a short program to its end, or end it after ``timeout_s``."""
    pipe = subprocess.PIPE
    with spawn(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return Finished(None, b"", b"")
        return Finished(process.returncode, stdout, stderr)


if sys.platform == "win32":

    def _spawn_on_windows(
        command: list[str],
        cwd: Path | None,
        env: dict[str, str],
        streams: tuple[Stream, Stream, Stream],
        handles: list[int],
        how: int,
    ) -> subprocess.Popen[bytes]:
        for handle in handles:
            os.set_handle_inheritable(handle, True)
        start = subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles}) if handles else None
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            close_fds=not handles,
            startupinfo=start,
            creationflags=how,
        )


def _is_frozen() -> bool:
    return bool(getattr(sys, "frozen", False))


def _may_pass(name: str, own: bool) -> bool:
    if _FOR_ANY.fullmatch(name):
        return True
    return own and name.upper() not in _NEVER and _FOR_OURS.fullmatch(name) is not None
