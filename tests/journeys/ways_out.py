"""What a job of a real worker is told to try, and what must come of it."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from tests.journeys.simulators.prying import PRIED
from worker_core.jobs.runtime import python_folders
from worker_core.machine.paths import find_paths

MUST_BE_EMPTY = (
    "read",
    "system_written",
    "reached",
    "sockets",
    "signalled",
    "seen",
    "others",
    "found",
    "in_environment",
    "in_proc",
    "calls",
)


def prying_spec(home: Path, core_pid: int, coordinator: str, secrets: list[str]) -> dict[str, object]:
    """Return a job that tries every way to the worker of ``home``, its core and its coordinator."""
    paths = find_paths(str(home))
    credential = json.loads(paths.credential_file.read_text())["secret"]
    control = json.loads(paths.control_file.read_text())
    said = [value for value in control.values() if isinstance(value, str)]
    tokens = [value for value in said if len(value) > 20 and not value.startswith("/")]
    needles = [credential, *tokens, *secrets]
    core = psutil.Process(core_pid)
    asked = {
        "paths": [
            str(path)
            for path in (
                paths.config,
                paths.cache,
                paths.logs,
                paths.state_db,
                paths.credential_file,
                paths.control_file,
                paths.lock_file,
                "/etc/shadow",
                "/home",
                "/run",
                "/var",
                str(Path.home() / ".ssh"),
                str(Path.home() / ".config"),
            )
        ],
        "roots": ["/"],
        "skip": [str(folder) for folder in python_folders()],
        "ports": [urlsplit(coordinator).port or 80],
        "sockets": [str(paths.control_socket), "/run/dbus/system_bus_socket"],
        "pids": [core.pid, *(parent.pid for parent in core.parents() if parent.pid > 1)],
        "needles": [needle[::-1] for needle in needles],
        "system": ["/etc/pried", "/usr/pried", "/pried", "/dev/pried", "/proc/sys/kernel/core_pattern"],
        "calls": True,
        "mark": "STOKER_ATTEMPT",
    }
    return {
        "kind": "rl-session",
        "name": "prying",
        "system": {"simulator": {"entry": "prying:PryingPole", "init": {"asked": json.dumps(asked)}}},
        "files": ["prying.py"],
        "training": {"cycles": 1, "simulators": 1, "decisions_per_cycle": 100},
        "retry": {"max_attempts": 1},
    }


def what_it_got(lines: list[str]) -> dict[str, Any]:
    """Return what the job said that it got."""
    said = [line.removeprefix(PRIED) for line in lines if line.startswith(PRIED)]
    assert len(said) == 1, lines
    return json.loads(said[0])
