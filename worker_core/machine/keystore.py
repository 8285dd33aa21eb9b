"""Where the worker's credential lies: the operating system's keystore, or a file that only its owner can read.

The choice is a person's; there is no silent fallback from one to the other. All calls block, for 10 s at most.
"""

import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast, get_args

from worker_core.machine.atomic_files import private_folder, write_file
from worker_core.machine.file_protection import protect, unprotect
from worker_core.machine.keystore_messages import Fault, KeystoreAnswer, KeystoreRequest
from worker_core.machine.paths import Paths
from worker_core.machine.spawn import keystore_command, run_briefly
from worker_core.wire.codec import BadMessage, Message, decode, encode

StoreKind = Literal["keyring", "file"]
SETTING = "STOKER_CREDENTIAL_STORE"
SERVICE = "Stoker worker"
MAX_SECRET_CHARS = 400
"""Windows keeps 2,560 bytes and stores UTF-16; more would be cut by some backends without a word."""
TIME_LIMIT_S = 10.0

_CURES: dict[Fault, str] = {
    "locked": "The keystore is locked. Unlock it (log in to the desktop, or open its password manager).",
    "none": "This session has no keystore. Log in to a desktop, or choose the file store: --credential-store file.",
    "timeout": "The keystore did not answer within 10 s; it may wait for its password in a window. Unlock it.",
    "denied": "The keystore refused access. Allow Stoker in the keystore's own settings.",
    "failed": "The keystore failed. Try again, or choose the file store: --credential-store file.",
}


@dataclass(frozen=True)
class Found:
    """The secret that was stored."""

    secret: str


@dataclass(frozen=True)
class Absent:
    """The store works and has no secret of this home."""


@dataclass(frozen=True)
class Saved:
    """The secret is stored."""


@dataclass(frozen=True)
class Deleted:
    """The store has no secret of this home any more."""


@dataclass(frozen=True)
class Unavailable:
    """The store cannot be used now; ``detail`` says why and what a person can do."""

    fault: Fault
    detail: str


class CredentialStore(Protocol):
    """One place for one secret."""

    kind: StoreKind

    def load(self) -> Found | Absent | Unavailable: ...

    def save(self, secret: str) -> Saved | Unavailable: ...

    def delete(self) -> Deleted | Unavailable: ...


def chosen_store(setting: StoreKind | None = None) -> StoreKind:
    """Return the kind of store by ``setting``, else by the environment, else the keystore."""
    if setting is not None:
        return setting
    wanted = os.environ.get(SETTING) or "keyring"
    if wanted not in get_args(StoreKind):
        raise ValueError(f"{SETTING}={wanted} is not a credential store; write keyring or file")
    return cast(StoreKind, wanted)


def open_store(paths: Paths, kind: StoreKind) -> CredentialStore:
    """Return the store of this home."""
    return KeyringStore(paths.identity) if kind == "keyring" else FileStore(paths.credential_file)


class KeyringStore:
    """The keystore of the operating system, asked through a child process with a time limit."""

    kind: StoreKind = "keyring"

    def __init__(self, identity: str, *, command: Sequence[str] | None = None, limit_s: float = TIME_LIMIT_S) -> None:
        self._entry = f"credential-{identity}"
        self._command = keystore_command() if command is None else list(command)
        self._limit_s = limit_s

    def load(self) -> Found | Absent | Unavailable:
        answer = self._ask(KeystoreRequest(do="load", service=SERVICE, entry=self._entry))
        if isinstance(answer, Unavailable):
            return answer
        return Absent() if answer.secret is None else Found(answer.secret)

    def save(self, secret: str) -> Saved | Unavailable:
        _check_length(secret)
        answer = self._ask(KeystoreRequest(do="save", service=SERVICE, entry=self._entry, secret=secret))
        return answer if isinstance(answer, Unavailable) else Saved()

    def delete(self) -> Deleted | Unavailable:
        answer = self._ask(KeystoreRequest(do="delete", service=SERVICE, entry=self._entry))
        return answer if isinstance(answer, Unavailable) else Deleted()

    def _ask(self, request: KeystoreRequest) -> KeystoreAnswer | Unavailable:
        finished = run_briefly(self._command, input=encode(request), timeout_s=self._limit_s)
        if finished.code is None:
            return _unavailable("timeout")
        try:
            answer = decode(finished.stdout, KeystoreAnswer)
        except BadMessage:
            return _unavailable("failed", finished.stderr.decode(errors="replace").strip()[-300:])
        return answer if answer.fault is None else _unavailable(answer.fault, answer.detail)


class _CredentialFile(Message):
    v: Literal[1]
    secret: str


class FileStore:
    """A file with mode 0600; on Windows it is also encrypted for the person who is logged in."""

    kind: StoreKind = "file"

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Found | Absent | Unavailable:
        try:
            self._refuse_open_file()
            content = decode(unprotect(self._path.read_bytes()), _CredentialFile)
        except FileNotFoundError:
            return Absent()
        except PermissionError as error:
            return Unavailable("denied", str(error))
        except (OSError, BadMessage) as error:
            return Unavailable("failed", f"The credential file {self._path} cannot be read: {error}")
        return Found(content.secret)

    def save(self, secret: str) -> Saved | Unavailable:
        _check_length(secret)
        try:
            private_folder(self._path.parent)
            write_file(self._path, protect(encode(_CredentialFile(v=1, secret=secret))), private=True)
        except OSError as error:
            return Unavailable("failed", f"The credential file {self._path} cannot be written: {error}")
        return Saved()

    def delete(self) -> Deleted | Unavailable:
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            return Unavailable("failed", f"The credential file {self._path} cannot be removed: {error}")
        return Deleted()

    def _refuse_open_file(self) -> None:
        if sys.platform == "win32":
            return  # its folder belongs to the person, and its content is encrypted for them
        found = self._path.stat()
        if found.st_uid != os.getuid():
            raise PermissionError(f"The credential file {self._path} belongs to another user; pair again.")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise PermissionError(f"Others can read the credential file {self._path}. Run: chmod 600 {self._path}")


def _check_length(secret: str) -> None:
    if len(secret) > MAX_SECRET_CHARS:
        raise ValueError(f"a secret of {len(secret)} characters is above {MAX_SECRET_CHARS}")


def _unavailable(fault: Fault, detail: str = "") -> Unavailable:
    return Unavailable(fault, f"{_CURES[fault]} ({detail})" if detail else _CURES[fault])
