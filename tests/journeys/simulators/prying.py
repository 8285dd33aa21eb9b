"""A job that tries to get out: it looks everywhere, tries every door it is told of, and says what it got."""

import ctypes
import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PRIED = "PRIED "
_NOT_SEARCHED = ("/usr", "/proc", "/sys", "/dev", "/lib", "/lib64", "/bin", "/sbin")
_MAX_BYTES = 1 << 20


def pry(asked: dict[str, Any]) -> dict[str, Any]:
    """Try everything; ``asked`` names paths, ports, sockets, processes, and needles written backwards."""
    needles = [needle[::-1].encode() for needle in asked["needles"]]
    own = {str(os.getpid())}
    return {
        "read": [path for path in asked["paths"] if _works(lambda path=path: _read(path))],
        "written": [path for path in asked["paths"] if _works(lambda path=path: _write(path))],
        "system_written": [path for path in asked["system"] if _works(lambda path=path: _open_to_write(path))],
        "reached": [port for port in asked["ports"] if _works(lambda port=port: _connect(port))],
        "sockets": [path for path in asked["sockets"] if _works(lambda path=path: _connect_unix(path))],
        "signalled": [pid for pid in asked["pids"] if _works(lambda pid=pid: os.kill(pid, signal.SIGCONT))],
        "seen": [pid for pid in asked["pids"] if Path(f"/proc/{pid}/cmdline").exists()],
        "others": sorted(_strangers(asked["mark"]) - own),
        "found": sorted({str(path) for path in _files(asked["roots"], asked["skip"]) if _holds(path, needles)}),
        "in_environment": [name for name, value in os.environ.items() if any(n in value.encode() for n in needles)],
        "in_proc": sorted(_in_proc(needles)),
        "descriptors": sorted(_kinds_of_descriptors()),
        "capabilities": _status("CapEff"),
        "no_new_privileges": _status("NoNewPrivs"),
        "filtered": _status("Seccomp"),
        # Only where a sandbox is claimed: outside of one, these would do to the machine what they try.
        "calls": [name for name, allowed in _calls() if allowed] if asked["calls"] else [],
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
    }


def _works(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True


def _read(path: str) -> object:
    return os.listdir(path) if os.path.isdir(path) else Path(path).read_bytes()


def _write(path: str) -> None:
    target = Path(path) / "pried" if os.path.isdir(path) else Path(path)
    with target.open("ab"):
        pass


def _open_to_write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def _connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=2).close()


def _connect_unix(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(2)
        door.connect(path)


def _strangers(mark: str) -> set[str]:
    """Return the processes that can be seen and do not carry this job's mark."""
    found: set[str] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() not in (entry / "environ").read_bytes():
                    found.add(entry.name)
            except OSError:
                found.add(entry.name)
    return found


def _in_proc(needles: list[bytes]) -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        for name in ("environ", "cmdline") if entry.name.isdigit() else ():
            if _holds(entry / name, needles):
                yield f"{entry.name}/{name}"


def _files(roots: list[str], skip: list[str]) -> Iterator[Path]:
    for root in roots:
        for where, folders, files in os.walk(root):
            folders[:] = [name for name in folders if os.path.join(where, name) not in (*_NOT_SEARCHED, *skip)]
            yield from (Path(where, name) for name in files)


def _holds(path: Path, needles: list[bytes]) -> bool:
    head = _head(path)
    return any(needle in head for needle in needles)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""


def _kinds_of_descriptors() -> set[str]:
    """Return what this process holds open, its numbers left out."""
    kinds: set[str] = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            kinds.add(os.readlink(f"/proc/self/fd/{name}").partition(":")[0])
        except OSError:
            continue
    return kinds


def _status(name: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))


def _calls() -> Iterator[tuple[str, bool]]:
    library = ctypes.CDLL(None, use_errno=True)
    yield "ptrace", library.ptrace(0, 0, 0, 0) == 0
    yield "unshare", library.unshare(0x10000000) == 0
    yield "keyctl", library.syscall(250, 0, -3, 0, 0, 0) >= 0
    nowhere = os.path.join(os.environ["TMPDIR"], "nowhere").encode()
    yield "mount", library.mount(b"none", nowhere, b"tmpfs", 0, None) == 0 or ctypes.get_errno() != errno.EPERM
    child = library.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    yield "clone a user namespace", child > 0


try:
    import gymnasium
except ImportError:  # as a plain script it needs no simulator
    gymnasium = None

if gymnasium is not None:

    class PryingPole(gymnasium.Env):
        """Says what it got, then gives up."""

        def __init__(self, asked: str) -> None:
            print(PRIED + json.dumps(pry(json.loads(asked))), flush=True)
            raise RuntimeError("it tried everything")
