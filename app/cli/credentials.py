"""Which coordinator the client commands speak to, and with which token."""

import os
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path

from app.cli.errors import CliError, NotSignedIn, WrongUsage
from worker_core.link.address import Address
from worker_core.link.faults import BadAddress
from worker_core.machine.atomic_files import private_folder, write_file
from worker_core.machine.paths import Paths
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.wire.codec import BadMessage, Message, decode, encode


@dataclass(frozen=True)
class Credentials:
    """A coordinator's address and a token for it, which no message may show."""

    coordinator: str
    token: str = field(repr=False)


class SavedLogin(Message):
    """Content of ``login.json`` in the config folder, readable by its owner only."""

    coordinator: str
    token: str
    account: str


def login_file(paths: Paths) -> Path:
    """Return where `stoker login` keeps its token."""
    return paths.config / "login.json"


def save_login(paths: Paths, login: SavedLogin) -> Path:
    """Keep a token for later commands and return the file."""
    path = login_file(paths)
    try:
        private_folder(path.parent)
        write_file(path, encode(login), private=True)
    except OSError as error:
        raise CliError(f"Cannot write {path}.", why=error.strerror or str(error), code="cannot-write") from error
    return path


def find_credentials(paths: Paths) -> Credentials:
    """Return the credentials of the environment, else those of `stoker login`; raises :class:`NotSignedIn`."""
    found = _find(paths)
    KNOWN_SECRETS.add(found.token)
    return found


def _find(paths: Paths) -> Credentials:
    coordinator, token = os.environ.get("STOKER_COORDINATOR", ""), os.environ.get("STOKER_TOKEN", "")
    if token and coordinator:
        return Credentials(normalise_url(coordinator), token.strip())
    if token:
        raise NotSignedIn("STOKER_TOKEN is set, but STOKER_COORDINATOR is not.")
    saved = _read_login(login_file(paths))
    if coordinator and normalise_url(coordinator) != saved.coordinator:
        raise NotSignedIn(f"The saved log-in is for {saved.coordinator}, STOKER_COORDINATOR says {coordinator}.")
    return Credentials(saved.coordinator, saved.token)


def _read_login(path: Path) -> SavedLogin:
    try:
        if sys.platform != "win32" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise CliError(f"Others can read {path}.", cure=f"Run: chmod 600 {path}", code="unsafe-file")
        return decode(path.read_bytes(), SavedLogin)
    except FileNotFoundError:
        raise NotSignedIn() from None
    except (BadMessage, OSError) as error:
        raise NotSignedIn(f"{path} cannot be used: {error}.") from error


def normalise_url(text: str) -> str:
    """Return a coordinator's address as we keep it; raises :class:`WrongUsage` for one that cannot be used."""
    try:
        return Address.parse(text).url
    except BadAddress as error:
        raise WrongUsage("This is no coordinator's address.", why=f"{error}.", code="bad-address") from error
