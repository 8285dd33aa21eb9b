"""Where the running core can be reached: ``control.json``, written by the core and read by its faces.

The file is private to its owner; the token in it is what lets a client in. A file left by a killed core is
recognised by the start time of its process, so that a reused pid is not mistaken for the core.
"""

import os
import secrets
import stat
import sys
from typing import Literal

from worker_core.control.messages import PROTOCOL_VERSION, Endpoint
from worker_core.machine.atomic_files import write_file
from worker_core.machine.paths import Paths
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.wire.codec import BadMessage, decode, encode

_START_TOLERANCE_S = 1.0
_MAX_FILE_BYTES = 64 * 1024


class BadEndpoint(Exception):
    """The file ``control.json`` cannot be trusted; the text says why."""


def make_endpoint(transport: Literal["unix", "tcp"], address: str, version: str) -> Endpoint:
    """Return the endpoint of this process with a fresh token."""
    import psutil  # here, because the tray reads this file far more often than it asks for a process

    token = secrets.token_hex(32)
    KNOWN_SECRETS.add(token)
    return Endpoint(
        v=PROTOCOL_VERSION,
        transport=transport,
        address=address,
        token=token,
        pid=os.getpid(),
        started=psutil.Process().create_time(),
        version=version,
    )


def write_endpoint(paths: Paths, endpoint: Endpoint) -> None:
    """Publish the endpoint: private file, replaced in one step."""
    write_file(paths.control_file, encode(endpoint), private=True)


def remove_endpoint(paths: Paths) -> None:
    """Take the endpoint away when the core leaves."""
    paths.control_file.unlink(missing_ok=True)


def read_endpoint(paths: Paths) -> Endpoint | None:
    """Return the published endpoint, or None without one; raises :class:`BadEndpoint` for one not to be trusted."""
    path = paths.control_file
    try:
        with path.open("rb") as file:
            _check_private(os.fstat(file.fileno()), str(path))
            content = file.read(_MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadEndpoint(f"{path} cannot be read: {error.strerror}") from error
    try:
        endpoint = decode(content, Endpoint)
    except BadMessage as error:
        raise BadEndpoint(f"{path} is not a control file: {error}") from error
    if endpoint.v != PROTOCOL_VERSION:
        raise BadEndpoint(f"{path} speaks version {endpoint.v} of the control channel; this program {PROTOCOL_VERSION}")
    KNOWN_SECRETS.add(endpoint.token)
    return endpoint


def endpoint_alive(endpoint: Endpoint) -> bool:
    """Tell whether the process that wrote the endpoint still runs."""
    import psutil

    try:
        process = psutil.Process(endpoint.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return abs(process.create_time() - endpoint.started) <= _START_TOLERANCE_S
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _check_private(facts: os.stat_result, path: str) -> None:
    if sys.platform == "win32":
        return
    if facts.st_uid != os.getuid():
        raise BadEndpoint(f"{path} belongs to another user")
    if stat.S_IMODE(facts.st_mode) & 0o077:
        raise BadEndpoint(f"{path} can be read by other users; end the worker, delete the file and start again")
