"""Every command of the README works as written; only the one that would start these tests is left out."""

import json
import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PASSWORD = "a long enough password"
GUARD_S = 240
BACKGROUND = ("serve", "pair", "run", "app")
"""Commands that stay, each in a terminal of its own."""


def _commands() -> list[str]:
    """Return the lines of all shell blocks in their order."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [line for line in "".join(blocks).splitlines() if line.strip()]


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("STOKER_")}


def test_the_two_commands_of_the_readme_come_first() -> None:
    assert _commands()[:2] == ["python3 dev.py demo", "python3 dev.py test"]


def test_the_demo_of_the_readme_ends_with_a_policy_that_plays_well(tmp_path: Path) -> None:
    command = _commands()[0].replace("dev.py", str(ROOT / "dev.py"))
    done = subprocess.run(
        [*shlex.split(command), "--json", "--spec", str(ROOT / "examples" / "cartpole.toml")],
        cwd=tmp_path,
        env=_clean_environment(),
        capture_output=True,
        text=True,
        timeout=GUARD_S,
    )
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout.splitlines()[-1])
    assert set(end) == {"state", "job_id", "return_before", "return_after", "artifact", "steps_per_second"}
    assert end["state"] == "succeeded"
    assert end["return_after"] >= 475
    assert Path(end["artifact"]).is_file()
    assert Path(end["artifact"]).parent == tmp_path / "stoker-demo"


class Reader:
    """Types the commands of the README one after the other, in a home of its own."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        home.mkdir()
        mine = {"HOME": str(home), "STOKER_HOME": str(home / "stoker"), "STOKER_CREDENTIAL_STORE": "file"}
        self.environment = {**_clean_environment(), **mine, "QT_QPA_PLATFORM": "offscreen"}
        self.environment = {name: value for name, value in self.environment.items() if not name.startswith("XDG_")}
        self.home = home
        self.staying: dict[str, subprocess.Popen[bytes]] = {}
        self.code = ""

    def type(self, command: str) -> None:
        """Type one command; what stays is waited for only until it is of use."""
        line = command.replace("8765", self.port).replace("BCDF-GHJK", self.code)
        if line.startswith("export "):
            self._export(line)
            return
        name = line.split()[1]
        if name in BACKGROUND:
            self._stay(name, line + (f" --port {self.port}" if name == "serve" else ""))
        else:
            self._run(line + (" --password-stdin" if name in ("account", "login") else ""))

    def _run(self, line: str) -> None:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=ROOT,
            env=self.environment,
            input=f"{PASSWORD}\n".encode(),
            capture_output=True,
            timeout=GUARD_S,
        )
        assert done.returncode == 0, f"{line}: {done.stdout.decode()}{done.stderr.decode()}"

    def _export(self, line: str) -> None:
        name = line.removeprefix("export ").partition("=")[0]
        script = f'{line}; printf %s "${name}"'
        value = subprocess.run(
            ["bash", "-c", script], cwd=ROOT, env=self.environment, capture_output=True, timeout=GUARD_S, check=True
        )
        self.environment[name] = value.stdout.decode()

    def _stay(self, name: str, line: str) -> None:
        if name == "run":
            assert self.staying["pair"].wait(GUARD_S) == 0
        output = self.home / f"{name}.out"
        with output.open("wb") as file:
            self.staying[name] = subprocess.Popen(
                ["bash", "-c", f"exec {line}"], cwd=ROOT, env=self.environment, stdout=file, stderr=file
            )
        if name == "serve":
            self._wait_for(output, r"http://127\.0\.0\.1:\d+", name)
        elif name == "pair":
            self.code = re.sub(r"\W", "", self._wait_for(output, r"(?m)[B-Z](?: [B-Z-]){7,8}\b", name))

    def _wait_for(self, output: Path, pattern: str, name: str) -> str:
        give_up = time.monotonic() + GUARD_S
        while time.monotonic() < give_up and self.staying[name].poll() is None:
            found = re.search(pattern, output.read_text())
            if found:
                return found.group()
            time.sleep(0.1)
        raise AssertionError(f"{name} said only: {output.read_text()}")

    def end(self) -> None:
        for name in reversed(self.staying):
            self.staying[name].terminate()
            self.staying[name].wait(60)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    one = Reader(tmp_path / "home")
    try:
        yield one
    finally:
        one.end()


def test_a_reader_who_types_the_rest_of_the_readme_gets_a_worker_that_trains(reader: Reader) -> None:
    for command in _commands()[2:]:
        reader.type(command)
    assert {"serve", "pair", "run"} <= set(reader.staying)


@pytest.mark.parametrize("path", re.findall(r"\]\((?!https?://|#)([^)#]+)", README))
def test_every_file_the_readme_points_to_exists(path: str) -> None:
    assert (ROOT / path).exists()
