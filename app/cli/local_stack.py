"""A coordinator and a worker of our own on this machine, as real processes in a folder of their own."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from app.cli.errors import CliError
from app.cli.terminal import wants_traceback
from worker_core.control.client import ControlClient, ControlFailure, CoreNotRunning
from worker_core.control.endpoint import BadEndpoint
from worker_core.machine.paths import Paths, find_paths
from worker_core.machine.spawn import clean_environment, coordinator_command, run_briefly, spawn, stoker_command
from worker_core.wire.codec import BadMessage, Message, decode
from worker_core.wire.status import WorkerStatus

T = TypeVar("T")
START_S = 60.0
"""A cold start on a busy disk may load many files."""
_TAIL_LINES = 8


class _Serving(Message):
    """First line of `stoker-coordinator serve --json`."""

    url: str


class OwnProcess:
    """A child with its output in a log file; it and all below it can be ended."""

    def __init__(self, name: str, command: list[str], log: Path, environment: dict[str, str]) -> None:
        self.name = name
        self.log = log
        self.output = log.with_suffix(".out")
        with log.open("ab") as errors, self.output.open("wb") as output:
            self.process = spawn(command, env=environment, stdout=output, stderr=errors)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait_for(self, ready: Callable[[], T | None], what: str, longest_s: float = START_S) -> T:
        """Return what ``ready`` returns once it is not None; raises when the process ends or time is up."""
        give_up = time.monotonic() + longest_s
        while True:
            found = ready()
            if found is not None:
                return found
            if not self.running:
                raise self._failed(f"The {self.name} ended with code {self.process.returncode} before {what}.")
            if time.monotonic() > give_up:
                raise self._failed(f"The {self.name} needed more than {longest_s:.0f} s: {what} is still to come.")
            time.sleep(0.03)

    def end(self, grace_s: float = 15.0) -> None:
        """Ask it to leave, then end it and everything below it."""
        below = _descendants(self.pid) if self.running else []
        if self.running:
            self.process.terminate()
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            below = _descendants(self.pid)
            self.process.kill()
            self.process.wait(10)
        for process in below:
            _kill(process)
        psutil.wait_procs(below, timeout=5)

    def kill(self) -> None:
        """End this process alone, at once, as a crash would."""
        self.process.kill()
        self.process.wait(10)

    def _failed(self, what: str) -> CliError:
        lines = self.log.read_text(errors="replace").splitlines()
        if not wants_traceback(False):
            lines = _without_tracebacks(lines)[-_TAIL_LINES:]
        cure = "STOKER_DEBUG=1 shows all that it said."
        return CliError(what, why="\n  ".join(lines), cure=cure, code="start-failed")


class LocalCoordinator(OwnProcess):
    """A coordinator on loopback with its data in ``folder``."""

    def __init__(self, folder: Path, settings: str = "", port: int = 0) -> None:
        self.data = folder / "coordinator"
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if settings:
            (self.data / "coordinator.toml").write_text(settings)
        command = coordinator_command("serve", "--data", str(self.data), "--port", str(port), "--json")
        super().__init__("coordinator", command, folder / "coordinator.log", _environment(folder))
        self._folder = folder
        try:
            self.url = self.wait_for(self._read_url, "it said its address")
        except BaseException:
            # Nobody has this object yet who could end the process.
            self.end()
            raise

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].rstrip("/"))

    def add_account(self, email: str, password: str) -> None:
        """Make an account; its password travels through a pipe."""
        self._admin("account", "add", email, "--password-stdin", typed=f"{password}\n")

    def add_token(self, email: str) -> str:
        """Make an API token and return it."""
        return self._admin("token", "add", email).strip().splitlines()[-1]

    def _admin(self, *words: str, typed: str = "") -> str:
        command = coordinator_command(*words, "--data", str(self.data))
        environment = _environment(self._folder)
        done = run_briefly(command, timeout_s=START_S, input=typed.encode(), env=environment)
        if done.code != 0:
            said = done.stderr.decode(errors="replace").strip()
            raise CliError(f"stoker-coordinator {words[0]} {words[1]} failed.", why=said, code="start-failed")
        return done.stdout.decode()

    def _read_url(self) -> str | None:
        line, complete, _ = self.output.read_text().partition("\n")
        if not complete:
            return None
        try:
            return decode(line, _Serving).url
        except BadMessage as error:
            raise self._failed(f"The coordinator said {line!r} instead of its address.") from error


class LocalCore(OwnProcess):
    """A worker's core with everything it keeps under ``home``."""

    def __init__(self, home: Path, *arguments: str) -> None:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.paths: Paths = find_paths(str(home))
        environment = _environment(home)
        super().__init__("worker", stoker_command("run", *arguments), home / "core.log", environment)

    def wait_ready(self) -> None:
        """Wait until the core answers."""
        self.wait_for(self._answers, "it answered")

    def wait_until(self, wanted: Callable[[WorkerStatus], bool], what: str, longest_s: float = START_S) -> WorkerStatus:
        """Return the first status that is ``wanted``."""

        def look() -> WorkerStatus | None:
            status = self.status()
            return status if status is not None and wanted(status) else None

        return self.wait_for(look, what, longest_s)

    def status(self) -> WorkerStatus | None:
        """Return the core's status, or None while it does not answer."""
        try:
            with self.control() as client:
                return client.status()
        except (ControlFailure, BadEndpoint, TimeoutError):
            return None

    def control(self) -> ControlClient:
        """Open a line to the core."""
        return ControlClient.connect(self.paths)

    def _answers(self) -> bool | None:
        try:
            self.control().close()
        except (CoreNotRunning, BadEndpoint):
            return None
        return True


def end_strays(home: Path) -> None:
    """End what this process started for ``home`` and lost sight of, when Ctrl-C came while it was being started."""
    strays = [child for child in psutil.Process().children(recursive=True) if _belongs_to(child, home)]
    for stray in strays:
        _kill(stray)
    psutil.wait_procs(strays, timeout=5)


def _belongs_to(process: psutil.Process, home: Path) -> bool:
    try:
        return Path(process.environ().get("STOKER_HOME", "")).is_relative_to(home)
    except psutil.Error:
        return False


def _without_tracebacks(lines: list[str]) -> list[str]:
    """Return the lines a person can use: of a traceback, the error at its end."""
    kept: list[str] = []
    inside = False
    for line in lines:
        starts = line.lstrip(" |+").startswith("Traceback (most recent call last)")
        inside = starts or (inside and line.startswith((" ", "\t")))
        if not inside:
            kept.append(line)
    return kept


def _environment(home: Path) -> dict[str, str]:
    """Return an environment in which nothing of this person's own worker is seen or touched."""
    environment = clean_environment({"STOKER_HOME": str(home), "STOKER_CREDENTIAL_STORE": "file"}, own=True)
    environment.pop("STOKER_COORDINATOR", None)
    return environment


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
