#!/usr/bin/env python3
"""Set up and run Stoker from a clone: `python3 dev.py demo` and `python3 dev.py test` need nothing else.

Standard library only. The first run makes `.venv` and installs what is missing; later runs see by a stamp that
nothing changed and start their work at once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "stoker-setup"
OLDEST_PYTHON = (3, 11)

USAGE = """usage: python3 dev.py COMMAND [ARGUMENTS]

  setup                    install everything, start nothing
  demo [--json] [--keep] [--spec FILE]
                           the whole story on this machine: pair, approve, train, compare
  test [PYTEST ARGUMENTS]  all tests, with real processes, a tray under Xvfb and a browser
  check                    lint, formatting, types and import contracts
  app                      the desktop: tray icon and windows
  bench [NAME] [--json]    one benchmark, or all that take seconds (see bench/)

The first run installs; that takes some minutes. Later runs start at once."""

# Debian package -> what proves that it is there: a library's file name, `bin:` a program, `path:` a folder.
QT = {
    "libglib2.0-0": "libglib-2.0.so.0",
    "libgl1": "libGL.so.1",
    "libegl1": "libEGL.so.1",
    "libfontconfig1": "libfontconfig.so.1",
    "libdbus-1-3": "libdbus-1.so.3",
    "libxkbcommon0": "libxkbcommon.so.0",
    "fonts-dejavu-core": "path:/usr/share/fonts/truetype",
    "libx11-xcb1": "libX11-xcb.so.1",
    "libxkbcommon-x11-0": "libxkbcommon-x11.so.0",
    "libxcb-cursor0": "libxcb-cursor.so.0",
    "libxcb-icccm4": "libxcb-icccm.so.4",
    "libxcb-image0": "libxcb-image.so.0",
    "libxcb-keysyms1": "libxcb-keysyms.so.1",
    "libxcb-randr0": "libxcb-randr.so.0",
    "libxcb-render-util0": "libxcb-render-util.so.0",
    "libxcb-shape0": "libxcb-shape.so.0",
    "libxcb-sync1": "libxcb-sync.so.1",
    "libxcb-xfixes0": "libxcb-xfixes.so.0",
    "libxcb-xkb1": "libxcb-xkb.so.1",
}
TESTING = {
    "xvfb": "bin:Xvfb",
    "xauth": "bin:xauth",
    "dbus-daemon": "bin:dbus-run-session",
    "gnome-keyring": "bin:gnome-keyring-daemon",
    "x11-utils": "bin:xwininfo",
    "python3-dbus": "path:/usr/lib/python3/dist-packages/dbus",
    "python3-gi": "path:/usr/lib/python3/dist-packages/gi",
    "chromium": "bin:chromium",
    "libatomic1": "libatomic.so.1",
}
CHECKING = {"nodejs": "bin:node"}
JOBS = {"bubblewrap": "bin:bwrap"}  # without it no job is taken
NEEDED: dict[str, dict[str, str]] = {
    "setup": {**QT, **TESTING, **CHECKING, **JOBS},
    "demo": JOBS,
    "test": {**QT, **TESTING, **JOBS},
    "bench": JOBS,
    "check": CHECKING,
    "app": QT,
}

# Benchmarks of many minutes: only by name.
ON_REQUEST = {"campaign", "codes", "fuzz", "learn", "link", "outage", "starve", "torn", "trees"}


class Stop(Exception):
    """The wish cannot be fulfilled; the text says why and what to do."""


def main(arguments: list[str]) -> int:
    """Run one command of this file and return its exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0 if arguments else 2
    command, rest = arguments[0], arguments[1:]
    commands = {"setup": setup, "demo": demo, "test": test, "check": check, "app": app, "bench": bench}
    if command not in commands:
        print(f"dev.py has no command {command!r}\n\n{USAGE}", file=sys.stderr)
        return 2
    try:
        install_system_packages(NEEDED.get(command, {}), required=command != "setup")
        install_python_packages()
        return commands[command](rest)
    except Stop as stop:
        print(f"dev.py: {stop}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def setup(arguments: list[str]) -> int:
    """Everything is installed by now: say so."""
    if arguments:
        raise Stop("setup takes no arguments")
    print(f"Everything is installed in {VENV}.")
    return 0


def demo(arguments: list[str]) -> int:
    """Run `stoker demo`."""
    return become([*python(), "-P", "-m", "app.entry", "demo", *arguments])


def app(arguments: list[str]) -> int:
    """Run the desktop."""
    return become([*python(), "-P", "-m", "app.entry", "app", *arguments])


def test(arguments: list[str]) -> int:
    """Run pytest on as many processes as there are processors, two at least and four at most."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STOKER_")}
    environment.setdefault("QT_QPA_PLATFORM", "offscreen")
    processes = str(max(2, min(4, os.cpu_count() or 2)))
    os.chdir(ROOT)
    return become([*python(), "-m", "pytest", "-n", processes, "--dist", "loadgroup", *arguments], environment)


def check(arguments: list[str]) -> int:
    """Run every static check and name those that fail."""
    if arguments:
        raise Stop("check takes no arguments")
    checks = {
        "ruff check": [tool("ruff"), "check", "."],
        "ruff format": [tool("ruff"), "format", "--check", "."],
        "pyright": [tool("pyright")],
        "import contracts": [tool("lint-imports")],
    }
    failed: list[str] = []
    for name, arguments_of_check in checks.items():
        print(f"== {name}", flush=True)
        if subprocess.run(arguments_of_check, cwd=ROOT).returncode != 0:
            failed.append(name)
    print(f"Failed: {', '.join(failed)}." if failed else "All checks passed.")
    return 1 if failed else 0


def bench(arguments: list[str]) -> int:
    """Run one benchmark by name, or all but the very long ones."""
    os.chdir(ROOT)
    known = [path.stem for path in sorted((ROOT / "bench").glob("*.py")) if not path.stem.startswith("_")]
    if arguments and not arguments[0].startswith("-"):
        name, rest = arguments[0], arguments[1:]
        if name not in known:
            raise Stop(f"there is no benchmark {name!r}; there are {', '.join(known)}")
        return become([*python(), "-m", "bench", name, *rest])
    codes = {
        name: subprocess.run([*python(), "-m", "bench", name, *arguments], cwd=ROOT).returncode
        for name in known
        if name not in ON_REQUEST
    }
    failed = [name for name, code in codes.items() if code != 0]
    if failed:
        print(f"dev.py: these benchmarks failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def install_system_packages(needed: dict[str, str], *, required: bool = True) -> None:
    """Install missing Debian packages with apt-get as root, else say the exact command, and stop if it is required."""
    missing = missing_packages(needed)
    if not missing:
        return
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
    if shutil.which("apt-get") is None:
        print(f"dev.py: missing here, by their Debian names: {' '.join(missing)}", file=sys.stderr)
        return
    if os.geteuid() != 0 and required:
        raise Stop(f"some system libraries are missing. Install them, then start again:\n  sudo {' '.join(command)}")
    if os.geteuid() != 0:
        say(f"missing for the desktop, the tests or the checks; all else works without:\n  sudo {' '.join(command)}")
        return
    say(f"installing {len(missing)} Debian packages: {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # An old package list is often good enough, so a failed update alone stops nothing.
    subprocess.run(["apt-get", "update", "-qq"], env=environment, stdout=sys.stderr)
    if subprocess.run(command, env=environment, stdout=sys.stderr).returncode != 0:
        raise Stop(f"apt-get failed. Its message stands above; the command was:\n  {' '.join(command)}")


def missing_packages(needed: dict[str, str]) -> list[str]:
    """Return the Debian packages of which nothing is found; other systems are left alone."""
    if not needed or not sys.platform.startswith("linux"):
        return []
    libraries = known_libraries()
    return [package for package, proof in needed.items() if not is_there(proof, libraries)]


def known_libraries() -> set[str]:
    """Return the file names of the shared libraries the loader knows."""
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if ldconfig is None:
        return set()
    listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True).stdout
    return {line.split()[0] for line in listing.splitlines() if line.startswith("\t")}


def is_there(proof: str, libraries: set[str]) -> bool:
    """Tell whether a library, program or folder is there."""
    kind, _, name = proof.rpartition(":")
    if kind == "bin":
        return shutil.which(name) is not None
    if kind == "path":
        return Path(name).exists()
    return name in libraries


def install_python_packages() -> None:
    """Make .venv and install the pinned packages, unless the stamp says that this is done."""
    wanted = fingerprint()
    if STAMP.exists() and STAMP.read_text() == wanted and python_path().exists():
        return
    if not python_path().exists():
        say(f"making {VENV}")
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], stdout=sys.stderr)
        if made.returncode != 0:
            shutil.rmtree(VENV, ignore_errors=True)
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise Stop(f"cannot make a virtual environment. On Debian: sudo apt-get install python{version}-venv")
    # Torch first and alone: resolved together with the rest, pip may take another build of it.
    say("installing PyTorch, then everything else; the first time takes some minutes")
    pip_install(pinned_torch())
    pip_install("--editable", f"{ROOT}[all,test,check]")
    STAMP.write_text(wanted)


def fingerprint() -> str:
    """Return what the installed packages depend on, as a hash."""
    digest = hashlib.sha256(sys.version.encode())
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((ROOT / name).read_bytes())
    digest.update(str(ROOT).encode())
    return digest.hexdigest()


def pinned_torch() -> str:
    """Return the requirement for torch as constraints.txt pins it."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.startswith("torch=="):
            return line.strip()
    raise Stop("constraints.txt pins no torch")


def pip_install(*what: str) -> None:
    """Install with the versions of constraints.txt."""
    command = [*python(), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    command += ["--constraint", str(ROOT / "constraints.txt"), *what]
    with time_shown("pip"):
        done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr)
    if done.returncode != 0:
        raise Stop(f"pip failed. Its message stands above; the command was:\n  {' '.join(command)}")


def python_path() -> Path:
    """Return the interpreter of .venv."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def python() -> list[str]:
    """Return the start of a command that runs Python of .venv."""
    return [str(python_path())]


def tool(name: str) -> str:
    """Return the path of a program installed in .venv."""
    return str(python_path().with_name(name + (".exe" if os.name == "nt" else "")))


def become(command: list[str], environment: dict[str, str] | None = None) -> int:
    """Run the command in place of this process, so that signals reach it; on Windows as a child."""
    environment = dict(os.environ) if environment is None else environment
    if os.name != "nt":
        sys.stdout.flush()
        os.execve(command[0], command, environment)
    return subprocess.run(command, env=environment).returncode


@contextmanager
def time_shown(name: str) -> Generator[None]:
    """On a terminal, let the seconds run beside a program that says nothing for minutes."""
    if not sys.stderr.isatty():
        yield
        return
    began, ended = time.monotonic(), threading.Event()

    def count() -> None:
        while not ended.wait(1):
            sys.stderr.write(f"\r  {name} works: {time.monotonic() - began:.0f} s ")
            sys.stderr.flush()

    counter = threading.Thread(target=count)
    counter.start()
    try:
        yield
    finally:
        ended.set()
        counter.join()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def say(text: str) -> None:
    """Tell the person what happens; standard output belongs to the command's own result."""
    print(f"dev.py: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(
            f"Stoker needs Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer; this is {sys.version.split()[0]}. "
            "Install a newer one and start dev.py with it, for example: python3.11 dev.py demo"
        )
    sys.exit(main(sys.argv[1:]))
