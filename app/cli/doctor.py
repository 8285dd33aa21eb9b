"""The checks of `stoker doctor`: what a worker needs on this machine, and the cure where it is missing."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime

from app.cli.client import CoordinatorClient, Patience
from app.cli.credentials import find_credentials
from app.cli.desktop_session import session_faults
from app.cli.doctor_containment import containment_findings
from app.cli.doctor_finding import Finding, State
from app.cli.doctor_journal import journal_findings
from app.cli.errors import CliError, NotRunning
from app.cli.worker_commands import core
from worker_core.jobs.runtime import RuntimeMissing, find_runtime
from worker_core.journal.driver import SQLITE_VERSION
from worker_core.machine.host import disk_space
from worker_core.machine.keystore import Unavailable, chosen_store, open_store
from worker_core.machine.paths import Paths
from worker_core.machine.sources import find_sources
from worker_core.machine.spawn import run_briefly
from worker_core.wire.codec import BadMessage, Message, decode
from worker_core.wire.problems import ProblemError
from worker_core.wire.status import WorkerStatus

_OLDEST_PYTHON = (3, 11)
_SAFE_SQLITE = (3, 51, 3)
_LITTLE_DISK_SHARE, _LITTLE_DISK_BYTES = 0.05, 5 << 30
_CLOCK_WARNING_S, _CLOCK_PROBLEM_S = 5.0, 300.0
_IMPORT_S = 120.0


def examine(paths: Paths) -> list[Finding]:
    """Check everything in a fixed order; a check that fails in an unforeseen way is a problem, not an end."""
    checks: list[tuple[str, Callable[[Paths], Iterator[Finding]]]] = [
        ("python", _python),
        ("torch", _torch),
        ("sqlite", _sqlite),
        ("user", _user),
        ("home", _home),
        ("disk", _disk),
        ("journal", journal_findings),
        ("containment", containment_findings),
        ("keystore", _keystore),
        ("desktop", _desktop),
        ("worker", _worker),
        ("coordinator", _coordinator),
    ]
    return [finding for name, check in checks for finding in _guarded(name, check, paths)]


def _guarded(name: str, check: Callable[[Paths], Iterator[Finding]], paths: Paths) -> list[Finding]:
    try:
        return list(check(paths))
    except Exception as error:
        return [Finding(name=name, state="problem", text=f"The check failed: {type(error).__name__}: {error}.")]


def _python(paths: Paths) -> Iterator[Finding]:
    version = sys.version.split()[0]
    fine = sys.version_info >= _OLDEST_PYTHON
    yield Finding(
        name="python",
        state="ok" if fine else "problem",
        text=f"Python {version} at {sys.executable}",
        cure="" if fine else "Install Python 3.11 or newer.",
    )


def _user(paths: Paths) -> Iterator[Finding]:
    if sys.platform == "win32":
        return
    as_root = os.geteuid() == 0
    yield Finding(
        name="user",
        state="warning" if as_root else "ok",
        text="It runs as root: limits on processes do not hold for its jobs" if as_root else "An ordinary user",
        cure="Run the worker as an ordinary user." if as_root else "",
    )


class _Torch(Message):
    """What the child process says of torch."""

    version: str
    device: str
    names: tuple[str, ...] = ()
    cuda_build: str | None = None


# The command line must not load torch itself: the child is the runtime that jobs would get.
_LOOK_AT_TORCH = """
import json, torch
cuda = torch.cuda.is_available()
mps = not cuda and torch.backends.mps.is_available()
names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if cuda else []
print(json.dumps({"version": torch.__version__, "device": "cuda" if cuda else "mps" if mps else "cpu",
                  "names": names, "cuda_build": torch.version.cuda}))
"""


def _torch(paths: Paths) -> Iterator[Finding]:
    try:
        runtime = find_runtime()
    except RuntimeMissing as error:
        yield Finding(name="torch", state="problem", text=str(error))
        return
    done = run_briefly([runtime.command[0], "-I", "-c", _LOOK_AT_TORCH], timeout_s=_IMPORT_S)
    if done.code != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it did not answer in time"]
        cure = "Install it: pip install 'stoker[training]'"
        yield Finding(name="torch", state="problem", text=f"PyTorch does not load: {last[0]}", cure=cure)
        return
    try:
        yield from _device(decode(done.stdout, _Torch))
    except BadMessage as error:
        yield Finding(name="torch", state="problem", text=f"PyTorch gave a strange answer: {error}")


def _device(torch: _Torch) -> Iterator[Finding]:
    yield Finding(name="torch", state="ok", text=f"PyTorch {torch.version}")
    gpus = find_sources().gpus.facts()
    if torch.device != "cpu":
        names = ", ".join(torch.names) or "this Mac's GPU"
        yield Finding(name="device", state="ok", text=f"Jobs run on {torch.device}: {names}")
    elif gpus:
        yield Finding(
            name="device",
            state="warning",
            text=f"{gpus[0].name} is there, but PyTorch cannot use it (built for CUDA: {torch.cuda_build or 'no'}).",
            cure="Install the PyTorch build for this GPU; see https://pytorch.org/get-started/locally/",
        )
    else:
        yield Finding(name="device", state="ok", text="No GPU is found; jobs run on the processor.")


def _sqlite(paths: Paths) -> Iterator[Finding]:
    version = tuple(int(part) for part in SQLITE_VERSION.split("."))
    safe = version >= _SAFE_SQLITE
    yield Finding(
        name="sqlite",
        state="ok" if safe else "warning",
        text=f"SQLite {SQLITE_VERSION}" + ("" if safe else ", which can lose a commit under two connections"),
        cure="" if safe else "Install pysqlite3; until then the worker keeps to a single connection.",
    )


def _home(paths: Paths) -> Iterator[Finding]:
    folder = next(path for path in (paths.data, *paths.data.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            yield Finding(name="home", state="ok", text=f"This worker keeps its things in {paths.data}")
    except OSError as error:
        yield Finding(
            name="home",
            state="problem",
            text=f"{folder} cannot be written: {error.strerror}",
            cure="Make it writable for you, or set STOKER_HOME to a folder that is.",
        )


def _disk(paths: Paths) -> Iterator[Finding]:
    space = disk_space(paths.data)
    little = space.free_share < _LITTLE_DISK_SHARE or space.free_bytes < _LITTLE_DISK_BYTES
    yield Finding(
        name="disk",
        state="problem" if space.free_share < _LITTLE_DISK_SHARE else "warning" if little else "ok",
        text=f"{space.free_bytes / 1e9:,.1f} GB free ({space.free_share:.0%})",
        cure="Free some space: below 5 % no job is taken." if little else "",
    )


def _keystore(paths: Paths) -> Iterator[Finding]:
    try:
        kind = chosen_store()
    except ValueError as error:
        yield Finding(name="keystore", state="problem", text=f"{error}.", cure="Correct STOKER_CREDENTIAL_STORE.")
        return
    if paths.credential_file.exists():
        kind = "file"  # this worker is paired with its key there, whatever a new pairing would choose
    answer = open_store(paths, kind).load()
    if isinstance(answer, Unavailable):
        text = "The worker's key cannot be kept or read."
        yield Finding(name="keystore", state="problem", text=text, cure=answer.detail)
    elif kind == "file":
        yield Finding(
            name="keystore",
            state="warning",
            text="The worker's key lies in a file; other programs of yours can read it.",
            cure="Nothing to do on a server. Where there is a keystore, unpair and pair again without the file store.",
        )
    else:
        yield Finding(name="keystore", state="ok", text="The keystore of this session answers.")


def _desktop(paths: Paths) -> Iterator[Finding]:
    faults = session_faults(os.environ)
    if not faults:
        yield Finding(name="display", state="ok", text="There is a display and a place for the tray icon.")
    for fault in faults:
        yield Finding(name=fault.name, state="warning", text=fault.text, cure=fault.cure)


def _status(paths: Paths) -> WorkerStatus | None:
    try:
        with core(paths) as client:
            return client.status()
    except NotRunning:
        return None


def _worker(paths: Paths) -> Iterator[Finding]:
    try:
        status = _status(paths)
    except CliError as error:
        yield Finding(name="worker", state="problem", text=f"{error.what} {error.why}".strip(), cure=error.cure)
        return
    if status is None:
        yield Finding(name="worker", state="ok", text="No worker runs here now; stoker run starts one.")
    elif status.state in ("problem", "expired", "revoked"):
        reasons = f" ({', '.join(status.reasons)})" if status.reasons else ""
        text = f"The worker is {status.state}{reasons}."
        yield Finding(name="worker", state="problem", text=text, cure=status.detail)
    else:
        yield Finding(name="worker", state="ok", text=f"The worker runs and is {status.state}.")


def _coordinator(paths: Paths) -> Iterator[Finding]:
    address = _address(paths)
    if address is None:
        text = "None is known yet: this worker is not paired, and you are not signed in."
        yield Finding(name="coordinator", state="ok", text=text)
        yield Finding(name="clock", state="ok", text="It is compared once a coordinator is known.")
        return
    began = time.time()
    try:
        with CoordinatorClient(address, patience=Patience(attempts=2)) as client:
            meta = client.meta()
    except CliError as error:
        yield Finding(name="coordinator", state="problem", text=f"{error.what} {error.why}".strip(), cure=error.cure)
        return
    except ProblemError as error:
        yield Finding(name="coordinator", state="problem", text=f"{address} refuses: {error}.")
        return
    yield Finding(name="coordinator", state="ok", text=f"{address} answers in {1000 * (time.time() - began):.0f} ms")
    yield _clock(datetime.fromisoformat(meta.server_time).timestamp() - (began + time.time()) / 2)


def _address(paths: Paths) -> str | None:
    try:
        status = _status(paths)
        if status is not None and status.coordinator:
            return status.coordinator
        return find_credentials(paths).coordinator
    except CliError:
        return os.environ.get("STOKER_COORDINATOR") or None


def _clock(offset_s: float) -> Finding:
    away = abs(offset_s)
    state: State = "problem" if away > _CLOCK_PROBLEM_S else "warning" if away > _CLOCK_WARNING_S else "ok"
    direction = "behind" if offset_s > 0 else "ahead of"
    return Finding(
        name="clock",
        state=state,
        text="The clock agrees with the coordinator's."
        if state == "ok"
        else f"This clock is {away:,.0f} s {direction} the coordinator's.",
        cure="" if state == "ok" else "Set this computer's clock, best by the network.",
    )
