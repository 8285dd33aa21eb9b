"""A job that tries everything gets nothing; the same job uncontained shows that it would have."""

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from worker_core.jobs.runtime import python_folders
from worker_core.jobs.sandbox.confinement import Confinement, Policy
from worker_core.jobs.sandbox.process_group import ProcessGroup
from worker_core.journal.records import NewAttempt
from worker_core.machine.spawn import clean_environment

CANARY = "canary-51b3c0ffee"
NOTHING = {
    "read": [],
    "system_written": [],
    "reached": [],
    "sockets": [],
    "signalled": [],
    "seen": [],
    "found": [],
    "in_environment": [],
    "in_proc": [],
    "calls": [],
    "interfaces": ["lo"],
    "capabilities": "0" * 16,
    "no_new_privileges": "1",
    "filtered": "2",
}


@pytest.fixture
def doors(tmp_path: Path, paths: Any) -> Iterator[dict[str, Any]]:
    """Secrets of the worker and ways to it: files, a socket, a port, a process with a secret in its environment."""
    key = paths.data / "credential.json"
    key.write_text(CANARY)
    paths.config.mkdir()
    (paths.config / "settings.json").write_text(CANARY)
    control = tmp_path / "control.sock"
    keeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    with (
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket(socket.AF_UNIX) as door,
        subprocess.Popen(keeper, env=clean_environment({"SECRET": CANARY})) as process,
    ):
        door.bind(str(control))
        door.listen()
        yield {
            "paths": [
                str(path)
                for path in (
                    key,
                    paths.config,
                    paths.cache,
                    tmp_path / "home" / "data" / "state.db",
                    "/etc/shadow",
                    "/home",
                    "/run",
                )
            ],
            "roots": ["/", str(tmp_path)],
            "ports": [port.getsockname()[1]],
            "sockets": [str(control)],
            "pids": [process.pid, os.getpid()],
            "needles": [CANARY[::-1]],
            "system": ["/etc/pried", "/usr/pried", "/pried", "/dev/pried", "/proc/sys/kernel/core_pattern"],
            "calls": True,
            "skip": [str(folder) for folder in python_folders()],
        }
        process.kill()


async def pry(bench: Any, attempt: Callable[..., NewAttempt], doors: dict[str, Any], held: Confinement) -> Any:
    row = attempt(spec=json.dumps(doors | {"mark": "STOKER_ATTEMPT"}))
    end = await (await bench.start("pry", row, confinement=held)).run()
    assert end.outcome == "succeeded", end
    return next(json.loads(line) for line in await bench.lines("stoker") if line.startswith("{"))


def written_outside(doors: dict[str, Any]) -> list[str]:
    """Return what was really written; in a /tmp of its own a job may write what it likes."""
    key, *others = map(Path, doors["paths"])
    changed = [] if key.read_text() == CANARY else [str(key)]
    return changed + [str(path) for path in others if (path / "pried").exists()]


async def test_a_contained_job_that_tries_everything_gets_nothing(
    bench: Any, attempt: Callable[..., NewAttempt], doors: dict[str, Any], confine: Callable[..., Confinement]
) -> None:
    got = await pry(bench, attempt, doors, confine())
    assert {name: got[name] for name in NOTHING} == NOTHING
    assert got["others"] == []
    assert written_outside(doors) == []
    assert set(got["descriptors"]) <= {"pipe", "/dev/null", "/proc/1/fd", "/proc/2/fd", "/proc/3/fd"}


async def test_the_same_job_uncontained_finds_the_key_so_the_test_can_see(
    bench: Any, attempt: Callable[..., NewAttempt], doors: dict[str, Any], tmp_path: Path
) -> None:
    doors |= {"roots": [str(tmp_path)], "paths": doors["paths"][:4], "system": [], "calls": False}
    got = await pry(bench, attempt, doors, Confinement(ProcessGroup(), Policy(allow_uncontained=True)))
    assert doors["paths"][0] in got["read"]
    assert doors["paths"][0] in got["found"]
    assert (got["reached"], got["sockets"], got["seen"]) == (doors["ports"], doors["sockets"], doors["pids"])
    assert got["in_proc"]
    assert got["filtered"] == "0"


async def test_the_network_is_there_only_when_the_job_asks_and_the_owner_allows(
    bench: Any, attempt: Callable[..., NewAttempt], doors: dict[str, Any], confine: Callable[..., Confinement]
) -> None:
    asks = msgspec.structs.replace(attempt().accepted.limits, network="any")
    doors |= {"mark": "STOKER_ATTEMPT", "roots": []}
    for allowed in (False, True):
        row = attempt(spec=json.dumps(doors), limits=asks)
        await (await bench.start("pry", row, confinement=confine(allow_network=allowed))).run()
        got = next(json.loads(line) for line in await bench.lines("stoker") if line.startswith("{"))
        assert (got["reached"] == doors["ports"]) is allowed
        assert (got["read"], got["sockets"]) == ([], [])


async def test_a_job_has_device_files_of_its_own_where_it_is_root_and_sockets_of_the_usual_kinds(
    bench: Any, confine: Callable[..., Confinement]
) -> None:
    end = await (await bench.start("show-devices", confinement=confine())).run()
    assert end.outcome == "succeeded", end
    shown = next(json.loads(line) for line in await bench.lines("stoker") if line.startswith("{"))
    machine = {name: [os.stat(name).st_dev, os.stat(name).st_ino] for name in shown["devices"] if name != "0"}
    same = [name for name in machine if shown["devices"][name] == machine[name]]
    assert same == ([] if os.getuid() == 0 else list(machine))  # of root's alone an owner's job may change the rights
    assert shown["devices"]["0"] not in machine.values()
    assert set(shown["refused"]) == {"AF_VSOCK", "AF_ALG"}
    assert set(shown["refused"].values()) == {errno.EAFNOSUPPORT}
