"""Secrets of a worker are found nowhere but where they belong, although a job does its best to spread them."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from app.cli.local_stack import LocalCore, OwnProcess
from tests.journeys.conftest import PASSWORD, Stack, job_spec
from tests.journeys.simulators.leaky import SECRETS
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.paths import Paths, find_paths
from worker_core.machine.redaction import Redactor
from worker_core.machine.spawn import clean_environment, stoker_command

OF_THE_VARIABLE, OF_THE_PROXY = SECRETS


class LeakyCore(LocalCore):
    """A core with secrets in its environment and its settings."""

    def __init__(self, home: Path) -> None:
        self.paths: Paths = find_paths(str(home))
        own = {"STOKER_HOME": str(home), "STOKER_CREDENTIAL_STORE": "file"}
        secret = {"MY_API_KEY": OF_THE_VARIABLE, "https_proxy": f"http://ada:{OF_THE_PROXY}@127.0.0.1:9"}
        environment = clean_environment(own, own=True) | secret
        OwnProcess.__init__(self, "worker", stoker_command("run", "--verbose"), home / "core.log", environment)


def test_no_secret_is_in_uploads_logs_reports_arguments_environments_or_databases(stack: Stack, tmp_path: Path) -> None:
    worker = stack.worker("box")
    paths = find_paths(str(worker.home))
    worker.core.end()
    private_folder(paths.config)
    settings = json.loads(paths.settings_file.read_text()) if paths.settings_file.exists() else {}
    paths.settings_file.write_text(json.dumps({**settings, "secret_env": ["MY_API_KEY"]}))
    worker.core = LeakyCore(worker.home)
    stack.cores.append(worker.core)
    worker.wait(lambda status: status.state == "available", "the worker is available")
    canaries = {
        "variable": OF_THE_VARIABLE,
        "proxy": OF_THE_PROXY,
        "worker's key": json.loads(json.loads(paths.credential_file.read_text())["secret"])["d"],
        "control token": json.loads(paths.control_file.read_text())["token"],
        "owner's token": stack.token,
        "owner's password": PASSWORD,
    }
    little = {"cycles": 1, "simulators": 1, "decisions_per_cycle": 2_000}
    system = {"simulator": {"entry": "leaky:LeakyPole"}}
    job_id = stack.submit(job_spec("leaky", system=system, files=["leaky.py"], training=little))
    # A step means that the job's own processes are there, and not only the intention.
    worker.wait(lambda status: status.job is not None and status.job.step > 0, "the job makes steps")
    said = "\n".join(_processes(worker.core.pid, stack.coordinator.pid)).encode()
    assert b"STOKER_ATTEMPT=" in said
    stack.wait_end(job_id)
    job = stack.client.job(job_id)
    assert job.state == "succeeded", job.reason
    log = "\n".join(line.text for line in stack.client.logs(job_id).items)
    assert "leak 0: [secret]" in log
    assert "leak 1: [secret]" in log
    assert worker.command("diagnostics", str(tmp_path / "report.zip")).code == 0

    found = [
        f"{what} in {where}"
        for where, data in (*_files(stack.folder, paths), *_bundle(tmp_path / "report.zip"))
        for what in _found(canaries, data)
    ]
    found += [f"{what} in a process" for what in _found(canaries, said)]
    assert found == []


def _found(canaries: dict[str, str], data: bytes) -> Iterator[str]:
    for what, canary in canaries.items():
        seeker = Redactor()
        seeker.add(canary)
        if seeker.redact_bytes(data) is not data:
            yield what


def _files(folder: Path, paths: Paths) -> Iterator[tuple[str, bytes]]:
    """Yield everything on disk but the three files whose business secrets are, and the code that leaks them."""
    kept = {paths.credential_file, paths.control_file, paths.config / "login.json"}
    for path in folder.rglob("*"):
        if path.is_file() and path not in kept:
            yield str(path.relative_to(folder)), path.read_bytes()


def _bundle(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as bundle:
        for name in bundle.namelist():
            yield f"the report's {name}", bundle.read(name)


def _processes(core: int, coordinator: int) -> Iterator[str]:
    """Yield the arguments of all our processes, and the environment of those of the job."""
    for pid in (core, coordinator):
        process = psutil.Process(pid)
        yield " ".join(process.cmdline())
        for child in process.children(recursive=True):
            try:
                yield " ".join(child.cmdline())
                yield " ".join(f"{name}={value}" for name, value in child.environ().items())
            except psutil.Error:
                continue  # it ended meanwhile
