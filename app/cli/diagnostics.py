"""Gathers what helps to find a fault of this worker into one file that can be given to others.

Every part passes the redactor, and a part that cannot be had is replaced by why not: a broken journal or a missing core
is what such a file is made for.
"""

import io
import platform
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from app.cli.doctor import examine
from app.cli.errors import CliError
from app.cli.worker_commands import core
from worker_core.core.settings import BadSettings, read_settings
from worker_core.journal.summary import read_summary
from worker_core.link.route import shown_proxy
from worker_core.machine.atomic_files import write_file
from worker_core.machine.host import disk_space, read_host
from worker_core.machine.known_secrets import learn_environment, learn_home, learn_url
from worker_core.machine.paths import Paths
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.machine.sources import find_sources
from worker_core.wire.codec import Message, encode

MAX_LOG_BYTES = 256 << 10
MAX_PART_BYTES = 1 << 20
_LOGS = ("core.log", "core.log.1", "desktop.log", "desktop-crash.log", "desktop-crash-untold.log")
_PACKAGES = (
    "stoker",
    "msgspec",
    "httpx",
    "joserfc",
    "cryptography",
    "torch",
    "gymnasium",
    "numpy",
    "PySide6-Essentials",
)


@dataclass(frozen=True)
class Part:
    """One file of the bundle."""

    name: str
    what: str
    data: bytes


class BundleEntry(Message):
    """One file of the bundle, as it is listed."""

    name: str
    what: str
    size_bytes: int


class Versions(Message):
    """What runs here."""

    python: str
    system: str
    packages: dict[str, str]


def gather(paths: Paths, environment: dict[str, str]) -> list[Part]:
    """Return all parts, redacted and bounded."""
    _learn(paths, environment)
    sources: list[tuple[str, str, Callable[[], bytes]]] = [
        ("versions.json", "versions of Stoker, Python, the system and libraries", lambda: encode(_versions())),
        ("machine.json", "processors, memory, GPUs and free disk", lambda: _machine(paths)),
        ("doctor.json", "what `stoker doctor` says", lambda: encode(examine(paths))),
        ("settings.json", "this worker's settings", lambda: _settings(paths)),
        ("status.json", "what the running worker says of itself", lambda: _status(paths)),
        ("journal.json", "the journal in figures, how attempts ended, what was set aside", lambda: _journal(paths)),
    ]
    logs = [*(paths.logs / name for name in _LOGS), paths.coordinator / "coordinator.log"]
    for path in logs:
        if path.is_file():
            sources.append((f"logs/{path.name}", "the end of a log", lambda path=path: _tail(path)))
    return [Part(name, what, _redacted(_try(read))) for name, what, read in sources]


def pack(parts: list[Part]) -> bytes:
    """Return the parts as a zip file, with a list of them in it."""
    entries = listed(parts)
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(
            "contents.json", encode({"made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "files": entries})
        )
        for part in parts:
            bundle.writestr(part.name, part.data)
    return memory.getvalue()


def listed(parts: list[Part]) -> list[BundleEntry]:
    """Return what is in a bundle."""
    return [BundleEntry(name=part.name, what=part.what, size_bytes=len(part.data)) for part in parts]


def write_bundle(out: Path, parts: list[Part]) -> int:
    """Write the bundle, for its owner only, and return its size; a file that is there already stays as it is."""
    if out.exists():
        raise CliError(f"{out} is there already.", cure="Choose another name.", code="exists")
    data = pack(parts)
    try:
        write_file(out, data, private=True)
    except OSError as error:
        raise CliError(f"Cannot write {out}.", why=error.strerror or str(error), code="cannot-write") from error
    return len(data)


def _learn(paths: Paths, environment: dict[str, str]) -> None:
    learn_home(paths)
    learn_environment(environment)
    try:
        settings = read_settings(paths)
    except BadSettings:
        return  # the bundle says what is wrong with them; they name no variables then
    learn_environment(environment, settings.secret_env)
    learn_url(settings.proxy)


def _try(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except Exception as error:
        return encode({"missing": f"{type(error).__name__}: {error}"})


def _redacted(data: bytes) -> bytes:
    return KNOWN_SECRETS.redact_bytes(data)[:MAX_PART_BYTES]


def _versions() -> Versions:
    return Versions(
        python=sys.version, system=platform.platform(), packages={name: _version(name) for name in _PACKAGES}
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _machine(paths: Paths) -> bytes:
    sources = find_sources()
    disk = disk_space(paths.data if paths.data.exists() else Path.home())
    host = read_host(sources.gpus.facts())
    return encode({"host": host, "disk_free_bytes": disk.free_bytes, "disk_total_bytes": disk.total_bytes})


def _settings(paths: Paths) -> bytes:
    """Return the settings; of a proxy's address only what holds no login, however short its password is."""
    settings = read_settings(paths)
    return encode(msgspec.structs.replace(settings, proxy=settings.proxy and shown_proxy(settings.proxy)))


def _status(paths: Paths) -> bytes:
    with core(paths) as client:
        return encode(client.status())


def _journal(paths: Paths) -> bytes:
    return encode(read_summary(paths.state_db))


def _tail(path: Path) -> bytes:
    """Return the last lines of a log; a line that is cut in two is left out, it may hold half of a secret."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - MAX_LOG_BYTES))
        data = file.read(MAX_LOG_BYTES)
    return data if size <= MAX_LOG_BYTES else data.partition(b"\n")[2]
