"""Which computer this is, as far as the operating system knows: by it a copied home is told from its original.

The id never leaves this computer. What is kept of it is a hash together with the worker's id.
"""

import hashlib
import re
import sys
from pathlib import Path

from worker_core.machine.spawn import run_briefly

_LINUX_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_UNSET = ("", "uninitialized")
_LIMIT_S = 5.0


def machine_id() -> str:
    """Return the operating system's id of this computer; nothing where it has none."""
    if sys.platform == "win32":
        return _windows_id()
    return _mac_id() if sys.platform == "darwin" else _linux_id()


def fingerprint(computer: str, worker_id: str) -> str:
    """Return what a home keeps of the computer it was paired on; nothing where the computer has no id."""
    if not computer:
        return ""
    return hashlib.sha256(f"stoker\n{computer}\n{worker_id}".encode()).hexdigest()[:32]


def _linux_id() -> str:
    for path in _LINUX_FILES:
        try:
            found = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if found not in _UNSET:
            return found
    return ""


def _mac_id() -> str:
    finished = run_briefly(["/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice"], input=b"", timeout_s=_LIMIT_S)
    found = re.search(r'"IOPlatformUUID"\s*=\s*"([0-9A-Fa-f-]{36})"', finished.stdout.decode(errors="replace"))
    return found[1] if found else ""


def _windows_id() -> str:
    if sys.platform != "win32":
        return ""
    import winreg

    try:
        place = r"SOFTWARE\Microsoft\Cryptography"
        access = winreg.KEY_READ | winreg.KEY_WOW64_64KEY
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place, 0, access) as key:
            return str(winreg.QueryValueEx(key, "MachineGuid")[0])
    except OSError:
        return ""
