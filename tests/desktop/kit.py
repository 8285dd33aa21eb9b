"""The black-box kit: a display, a private session bus with a tray host, and the real desktop process."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
HERE = Path(__file__).parent
SYSTEM_PYTHON = "/usr/bin/python3"
READ_TIMEOUT_S = 15.0


class Display:
    """An X server of our own on a free number."""

    def __init__(self, size: str = "1400x1000x24") -> None:
        read_end, write_end = os.pipe()
        command = ["Xvfb", "-displayfd", str(write_end), "-screen", "0", size, "-nolisten", "tcp", "-noreset"]
        self._process = subprocess.Popen(command, pass_fds=[write_end], stderr=subprocess.DEVNULL)
        os.close(write_end)
        try:
            self.name = f":{_read_line(read_end).strip()}"
        finally:
            os.close(read_end)

    def close(self) -> None:
        end(self._process)


class Bus:
    """A session bus of our own."""

    def __init__(self) -> None:
        command = ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        self.address = _read_line(self._process.stdout.fileno()).strip()

    def close(self) -> None:
        end(self._process)


class TrayHost:
    """The test's hand on the fake tray host."""

    def __init__(self, bus: Bus, *, present: bool = True) -> None:
        environment = os.environ | {"DBUS_SESSION_BUS_ADDRESS": bus.address}
        self._process = subprocess.Popen(
            [SYSTEM_PYTHON, str(HERE / "fake_watcher.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdout is not None
        assert _read_line(self._process.stdout.fileno()) == "ready\n"
        if present:
            self.ask("own")

    def ask(self, command: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([command, *arguments]).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(_read_line(self._process.stdout.fileno()))
        assert "error" not in answer, answer
        return answer["ok"]

    def item(self) -> dict[str, Any]:
        """Return the registered icon, waiting until there is one."""
        return wait_for(lambda: self.ask("item"), what="a tray icon")

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the visible entries of the menu by their plain labels, in order."""
        self.item()
        shown = [entry for entry in self.ask("menu")["children"] if entry["visible"] and entry["type"] == "standard"]
        return {entry["label"].replace("_", "").replace("&", ""): entry for entry in shown}

    def find(self, label: str) -> dict[str, Any]:
        """Return an entry of the menu or of a submenu by its plain label, waiting until there is one."""

        def look(entry: dict[str, Any]) -> dict[str, Any] | None:
            if entry["label"].replace("_", "").replace("&", "") == label:
                return entry
            return next((found for child in entry["children"] if (found := look(child))), None)

        self.item()
        return wait_for(lambda: look(self.ask("menu")), what=f"the entry {label!r}")

    def wait_for_notice(self, text: str, *, after: int = 0) -> dict[str, Any]:
        """Return the first notification with ``text`` in its summary, leaving out the ``after`` oldest."""

        def look() -> dict[str, Any] | None:
            return next((shown for shown in self.ask("noticed")[after:] if text in shown["summary"]), None)

        return wait_for(look, what=f"a notification {text!r}", timeout_s=30.0)

    def wait_for_headline(self, text: str) -> None:
        wait_for(lambda: text in next(iter(self.entries()), ""), what=f"the headline {text!r}")

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        end(self._process)


class DesktopProcess:
    """`stoker app` as a person starts it."""

    def __init__(
        self,
        home: Path,
        display: Display,
        bus: Bus,
        *arguments: str,
        patience_s: float | None = None,
        grace_s: float | None = None,
        detached: bool = False,
        **environment: str,
    ) -> None:
        self.home = home
        programs = home / "bin"
        programs.mkdir(exist_ok=True)
        self.opened = home / "opened"
        _write_program(programs / "xdg-open", f'echo "$1" >> "{self.opened}"')
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("QT_", "XDG_", "STOKER_"))
        }
        variables |= {
            "DISPLAY": display.name,
            "DBUS_SESSION_BUS_ADDRESS": bus.address,
            "STOKER_HOME": str(home),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "0",
        }
        variables.pop("WAYLAND_DISPLAY", None)
        self._stderr = home / f"stderr-{time.monotonic_ns()}"
        self._errors = self._stderr.open("wb")
        # A windowed program has no place to write to: Python has no sys.stderr then.
        wrapped = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"] if detached else []
        self.process = subprocess.Popen(
            [*wrapped, sys.executable, *_program(patience_s, grace_s), "app", *arguments],
            env=variables | environment,
            stderr=self._errors,
        )
        self._display = display

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def windows(self) -> list[str]:
        """Return the titles of the windows that can be seen."""
        return visible_windows(self._display.name)

    def wait(self, timeout_s: float = 10.0) -> int:
        return self.process.wait(timeout_s)

    def close(self) -> None:
        end(self.process)
        self._errors.close()


Launch = Callable[..., DesktopProcess]


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that this test started, and let go of its pipes."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and not stream.closed:
            stream.close()


def wait_for(look: Callable[[], T | None], *, what: str, timeout_s: float = 12.0) -> T:
    """Return the first true answer of ``look``."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.04)
    raise AssertionError(f"waited {timeout_s:.0f} s for {what}")


def visible_windows(display: str) -> list[str]:
    """Ask the X server which windows with a title are on screen."""
    tree = subprocess.run(
        ["xwininfo", "-display", display, "-root", "-tree"], capture_output=True, text=True, timeout=10, check=True
    ).stdout
    titles: list[str] = []
    for line in tree.splitlines():
        parts = line.strip().split(" ", 1)
        if not parts[0].startswith("0x") or not parts[-1].startswith('"'):
            continue
        state = subprocess.run(
            ["xwininfo", "-display", display, "-id", parts[0]], capture_output=True, text=True, timeout=10
        ).stdout
        if "IsViewable" in state:
            titles.append(parts[1].split('"')[1])
    return titles


def _read_line(descriptor: int) -> str:
    """Read one line, one byte at a time, so that nothing of the next is taken."""
    line = b""
    deadline = time.monotonic() + READ_TIMEOUT_S
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(descriptor, 1) if ready else b""
        if not chunk:
            raise AssertionError(f"a helper of the test said {line!r} and then nothing")
        line += chunk
    return line.decode()


def _program(patience_s: float | None, grace_s: float | None) -> list[str]:
    """Return the start of the desktop's command line, with other waits where a test cannot wait as long as a person.

    They are the patience with a tray host that is missing, and the quiet in which a start or a waking tells nothing.
    """
    changed: list[str] = []
    if patience_s is not None:
        changed.append(f"from app.desktop.tray.host import TrayHost; TrayHost.__init__.__defaults__ = ({patience_s},)")
    if grace_s is not None:
        changed.append("from app.desktop.notify.watch import NoticeWatch")
        changed.append(f"NoticeWatch.__init__.__kwdefaults__['start_grace_s'] = {grace_s}")
    if not changed:
        return ["-m", "app.entry"]
    # What the program itself imports first has to come first here too.
    return ["-c", "; ".join(["import sys, app.desktop.lean", *changed, "from app.entry import main; sys.exit(main())"])]


def _write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
