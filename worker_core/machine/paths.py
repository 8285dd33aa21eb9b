"""Where a worker keeps its things: one home, or the folders the platform has for them."""

import hashlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

_SOCKET_BYTES = 100
"""Longest path of a socket on every system, with a little to spare."""


@dataclass(frozen=True)
class Paths:
    """The folders of one worker. Two homes are two workers."""

    config: Path
    data: Path
    cache: Path
    logs: Path

    @property
    def identity(self) -> str:
        """A short hash that tells this home from others (keystore entry, lock, socket)."""
        return hashlib.sha256(str(self.data).encode()).hexdigest()[:12]

    @property
    def settings_file(self) -> Path:
        return self.config / "settings.json"

    @property
    def state_db(self) -> Path:
        return self.data / "state.db"

    @property
    def lock_file(self) -> Path:
        """Held by the core for life; what it holds is the pid, for messages only."""
        return self.data / "core.lock"

    @property
    def control_file(self) -> Path:
        """``control.json``: how to reach the running core."""
        return self.data / "control.json"

    @property
    def credential_file(self) -> Path:
        """The worker's key, when the person chose the file store (0600)."""
        return self.data / "credential.json"

    @property
    def workspaces(self) -> Path:
        return self.data / "workspaces"

    @property
    def blobs(self) -> Path:
        """Content-addressed inputs and checkpoints, by sha256."""
        return self.cache / "blobs"

    @property
    def coordinator(self) -> Path:
        """Data folder of the embedded coordinator ("this computer")."""
        return self.data / "coordinator"

    @property
    def control_socket(self) -> Path:
        """Unix socket in a 0700 folder; its path stays under the 100 bytes the system allows."""
        user = os.getuid() if sys.platform != "win32" else 0
        short = f"stoker-{user}-{self.identity}"
        folders = (self.data / "run", Path(tempfile.gettempdir()) / short, Path("/tmp") / short)
        sockets = [folder / "control.sock" for folder in folders]
        return next((path for path in sockets if len(str(path).encode()) < _SOCKET_BYTES), sockets[-1])


def find_paths(home: str | None = None) -> Paths:
    """Return the folders under ``home``, else under ``STOKER_HOME``, else where the platform puts them."""
    chosen = home or os.environ.get("STOKER_HOME")
    if chosen:
        root = Path(chosen).expanduser().absolute()
        return Paths(config=root / "config", data=root / "data", cache=root / "cache", logs=root / "logs")
    dirs = platformdirs.PlatformDirs("Stoker", appauthor=False)
    return Paths(
        config=Path(dirs.user_config_dir),
        data=Path(dirs.user_data_dir),
        cache=Path(dirs.user_cache_dir),
        logs=Path(dirs.user_log_dir),
    )
