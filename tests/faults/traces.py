"""What a site leaves in the system: its processes, shared memory and sockets, read from /proc and never asked of it."""

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

MARK = b"STOKER_ATTEMPT="
_PROC = Path("/proc")


@dataclass(frozen=True)
class Trace:
    """One living process of a site."""

    pid: int
    argv: bytes
    environment: bytes
    attempt: str | None
    """The attempt it carries the mark of."""
    home: str
    """The part of the site it belongs to: ``box``, ``coordinator``, or empty."""


def living(folder: Path, attempts: Collection[str] = ()) -> list[Trace]:
    """Return every process of the site in ``folder``: by environment, arguments, working folder or attempt."""
    needle = str(folder).encode() + b"/"
    found: list[Trace] = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        trace = _look_at(entry, needle, attempts)
        if trace is not None:
            found.append(trace)
    return found


def left_alive(folder: Path, attempts: Collection[str], patience_s: float) -> list[Trace]:
    """Return what still lives of a site after ``patience_s`` at most."""
    give_up = time.monotonic() + patience_s
    while True:
        found = living(folder, attempts)
        if not found or time.monotonic() > give_up:
            return found
        time.sleep(0.1)


def shared_memory(traces: list[Trace]) -> set[str]:
    """Return the files in /dev/shm that these processes hold open or mapped."""
    names: set[str] = set()
    for trace in traces:
        base = _PROC / str(trace.pid)
        try:
            targets = [os.readlink(link) for link in (base / "fd").iterdir()]
            targets += [
                line.split(b" ")[-1].decode()
                for line in (base / "maps").read_bytes().splitlines()
                if b"/dev/shm/" in line
            ]
        except OSError:
            continue  # it has ended meanwhile
        names |= {target for target in targets if target.startswith("/dev/shm/")}
    return names


def sockets_below(folder: Path) -> list[Path]:
    """Return socket files in a site's folder."""
    return [path for path in folder.glob("**/*") if path.is_socket()]


def _look_at(entry: Path, needle: bytes, attempts: Collection[str]) -> Trace | None:
    try:
        argv, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
        place = os.readlink(entry / "cwd").encode() + b"/"
    except OSError:
        return None  # it has ended, or belongs to the kernel
    if state in (b"Z", b"X"):
        return None
    mark = _mark(environment)
    for text in (environment, argv, place):
        at = text.find(needle)
        if at >= 0:
            home = text[at + len(needle) :].partition(b"/")[0].partition(b"\0")[0].decode(errors="replace")
            return Trace(int(entry.name), argv, environment, mark, home)
    return Trace(int(entry.name), argv, environment, mark, "") if mark is not None and mark in attempts else None


def _mark(environment: bytes) -> str | None:
    for pair in environment.split(b"\0"):
        if pair.startswith(MARK):
            return pair.removeprefix(MARK).decode(errors="replace")
    return None
