"""Facts and load of this computer that need no GPU driver."""

import platform
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

from worker_core.wire.pairing import Gpu, Host

_LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LINUX_PROCESSES = Path("/proc/self/ns/pid")
_LINUX_FIRST_PROCESSES = 0xEFFFFFFC
"""The space of process ids outside any container (PROC_PID_INIT_INO)."""


@dataclass(frozen=True)
class HostLoad:
    """How busy processor and memory are; the processor's share is since the last reading."""

    cpu_pct: float
    ram_used_bytes: int
    ram_total_bytes: int


@dataclass(frozen=True)
class DiskSpace:
    """Space of the volume that holds a folder."""

    free_bytes: int
    total_bytes: int

    @property
    def free_share(self) -> float:
        return self.free_bytes / self.total_bytes if self.total_bytes else 0.0


def read_host(gpus: tuple[Gpu, ...] = ()) -> Host:
    """Return how this computer presents itself."""
    return Host(
        os=f"{platform.system()} {platform.release()}",
        arch=platform.machine(),
        hostname=socket.gethostname(),
        gpus=gpus,
        ram_gb=round(psutil.virtual_memory().total / 1e9, 1),
        cpus=psutil.cpu_count() or 0,
    )


def boot_id() -> str:
    """Return a text that is the same until the computer, or the container around us, starts again."""
    try:
        return _LINUX_BOOT_ID.read_text().strip() + _container()
    except OSError:
        # Elsewhere only the time of the start is to be had, which moves a little when the clock is set.
        return f"started-{round(psutil.boot_time() / 60)}"


def _container() -> str:
    """Tell containers of one computer apart: they share its boot, and a copied one must not pass for a restart."""
    try:
        space = _LINUX_PROCESSES.stat().st_ino
    except OSError:
        return ""
    return "" if space == _LINUX_FIRST_PROCESSES else f"-{space}"


def read_load() -> HostLoad:
    """Return the present load."""
    memory = psutil.virtual_memory()
    used = memory.total - memory.available
    return HostLoad(cpu_pct=psutil.cpu_percent(), ram_used_bytes=used, ram_total_bytes=memory.total)


def disk_space(folder: Path) -> DiskSpace:
    """Return the space of the volume that holds ``folder``, which need not exist yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    usage = shutil.disk_usage(existing)
    return DiskSpace(free_bytes=usage.free, total_bytes=usage.total)
