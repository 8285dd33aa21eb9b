"""Commands of the coordinator's host: make an account or an API token, beside a running server or without one."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import httpx
from sqlalchemy import Connection

from coordinator.accounts.people import (
    SCOPES,
    checked_email,
    hash_password,
    insert_account,
    insert_token,
    replace_password,
)
from coordinator.clock import SystemClock
from coordinator.errors import HostError
from coordinator.serve import ADMIN_FILE, AdminAccess
from coordinator.storage.data_folder import DataFolder, FolderInUse
from coordinator.storage.database import Database
from worker_core.wire.client import TokenView
from worker_core.wire.codec import BadMessage, decode, encode
from worker_core.wire.problems import Problem

T = TypeVar("T")

_TIMEOUT_S = 30.0


class CommandFailed(HostError):
    """A command could not be done; the text says why and what to do."""


def add_account(data: Path, email: str, password: str) -> None:
    """Make an account; raises :class:`CommandFailed` or BadAccount."""
    address, hashed = checked_email(email), hash_password(password)
    now = SystemClock().now()
    _on_folder(
        data,
        lambda conn: insert_account(conn, address, hashed, now),
        lambda access: _post(access, "/v1/admin/accounts", {"email": address, "password": password}, dict[str, str]),
    )


def set_password(data: Path, email: str, password: str) -> None:
    """Give an account another password; raises :class:`CommandFailed` or BadAccount."""
    hashed, now = hash_password(password), SystemClock().now()
    body = {"email": email, "password": password}
    _on_folder(
        data,
        lambda conn: replace_password(conn, email, hashed, now),
        lambda access: _post(access, "/v1/admin/passwords", body, type(None)),
    )


def add_token(data: Path, email: str, name: str = "made on the host") -> str:
    """Make an API token of every scope and return it; raises :class:`CommandFailed` or BadAccount."""
    now = SystemClock().now()
    return _on_folder(
        data,
        lambda conn: insert_token(conn, email, name, SCOPES, now),
        lambda access: _post(access, "/v1/admin/tokens", {"email": email, "name": name}, TokenView).token,
    )


def _on_folder(data: Path, write: Callable[[Connection], T], ask: Callable[[AdminAccess], T]) -> T:
    """Open the database if no server holds it, else ask that server."""
    try:
        folder = DataFolder.hold(data)
    except FolderInUse as busy:
        return ask(_admin_access(data, busy))
    try:
        database = Database.open(folder.database)
        try:
            return database.write_sync(write)
        finally:
            database.close()
    finally:
        folder.release()


def _admin_access(data: Path, busy: FolderInUse) -> AdminAccess:
    path = data.expanduser() / ADMIN_FILE
    try:
        return decode(path.read_bytes(), AdminAccess)
    except (OSError, BadMessage) as error:
        raise CommandFailed(f"{busy}, and {path} does not say how to reach it: {error}") from error


def _post(access: AdminAccess, path: str, body: dict[str, str], kind: type[T]) -> T:
    headers = {"Authorization": f"Bearer {access.key}", "Content-Type": "application/json"}
    try:
        response = httpx.post(
            access.url + path, content=encode(body), headers=headers, timeout=_TIMEOUT_S, trust_env=False
        )
    except httpx.HTTPError as error:
        raise CommandFailed(f"the running coordinator at {access.url} does not answer: {error}") from error
    if response.status_code >= 400:
        raise CommandFailed(_refusal(response))
    return decode(response.content, kind)


def _refusal(response: httpx.Response) -> str:
    try:
        refusal = decode(response.content, Problem)
    except BadMessage:
        return f"the running coordinator answered {response.status_code}"
    return refusal.detail or refusal.title
