"""What a job sees of the machine inside bubblewrap: the arguments that build its file system, pure but for looking.

Nothing is there that is not named here. The system is read-only and without /home, /var and /run; /etc holds what a
program needs to start; the workspace alone can be written, and what the core put into it can not.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from worker_core.jobs.sandbox.cell import Cell
from worker_core.jobs.sandbox.device_nodes import PLAIN
from worker_core.jobs.sandbox.gpu_nodes import gpu_facts, gpu_nodes

_TMP_BYTES = 256 << 20
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "timezone",
    "fonts",
    "OpenCL",
    "glvnd",
)
_ETC_FOR_NETWORK = ("hosts", "nsswitch.conf", "ssl", "pki", "ca-certificates", "host.conf", "gai.conf", "services")
_GIVEN = ("inputs", "code", "resume", "spec.json", "job.json")
"""What the core laid out in the workspace and the job may only read: files there can be links into the cache."""
_PROC = ("sys", "sysrq-trigger")
_CPU_FACTS = ("/sys/devices/system/cpu", "/sys/devices/system/node")


@dataclass(frozen=True)
class Hidden:
    """Folders that no job may see, also where they lie inside something readable."""

    folders: tuple[Path, ...] = ()


NOTHING_HIDDEN = Hidden()
NO_COPIES: Mapping[Path, Path] = MappingProxyType({})


def device_files(cell: Cell, root: Path = Path("/")) -> list[Path]:
    """Return the device files of the machine that a job is given."""
    return [*(root / "dev" / name for name in PLAIN), *gpu_nodes(cell.devices, root)]


def view_arguments(
    cell: Cell, hidden: Hidden = NOTHING_HIDDEN, root: Path = Path("/"), copies: Mapping[Path, Path] = NO_COPIES
) -> list[str]:
    """Return bwrap's arguments for namespaces, file system and capabilities of one job.

    ``copies`` takes the place of device files.
    """
    return [
        "--unshare-all",
        *(["--share-net"] if cell.network else []),
        "--hostname",
        "job",
        *_system(root),
        *_etc(root, cell.network),
        *_proc_and_devices(cell, root, copies),
        *_readable(cell.readable, hidden),
        *_workspace(cell.workspace),
        *("--remount-ro", "/"),
        *("--chdir", str(cell.workspace)),
        *("--cap-drop", "ALL"),
    ]


def _system(root: Path) -> list[str]:
    arguments = ["--ro-bind", str(root / "usr"), "/usr"]
    for name in _SYSTEM:
        path = root / name
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), f"/{name}"]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), f"/{name}"]
    return [*arguments, "--ro-bind-try", str(root / "opt/rocm"), "/opt/rocm"]


def _etc(root: Path, network: bool) -> list[str]:
    arguments = ["--dir", "/etc"]
    for name in _ETC + (_ETC_FOR_NETWORK if network else ()):
        arguments += ["--ro-bind-try", str(root / "etc" / name), f"/etc/{name}"]
    if network:
        # Often a link into /run, which is not there.
        resolver = (root / "etc/resolv.conf").resolve()
        arguments += ["--ro-bind-try", str(resolver), "/etc/resolv.conf"]
    return arguments


def _proc_and_devices(cell: Cell, root: Path, copies: Mapping[Path, Path]) -> list[str]:
    arguments = ["--proc", "/proc"]
    for name in _PROC:
        # The kernel lets a root without capabilities write these; bwrap looks at the folder only.
        arguments += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for path in (*_CPU_FACTS, *map(str, gpu_facts(cell.devices, root))):
        arguments += ["--ro-bind-try", path, path]
    arguments += ["--dev", "/dev"]
    # bwrap itself binds the machine's plain ones.
    for node in (*gpu_nodes(cell.devices, root), *(node for node in copies if node.name in PLAIN)):
        arguments += ["--dev-bind", str(copies.get(node, node)), f"/{node.relative_to(root)}"]
    arguments += ["--perms", "1777", "--size", str(cell.memory_bytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    return [*arguments, "--perms", "1777", "--size", str(min(_TMP_BYTES, cell.memory_bytes)), "--tmpfs", "/tmp"]


def _readable(folders: Sequence[Path], hidden: Hidden) -> list[str]:
    arguments: list[str] = []
    for folder in _outermost(folders):
        arguments += ["--ro-bind-try", str(folder.resolve()), str(folder)]
    for folder in hidden.folders:
        if any(_within(folder, seen) for seen in folders) and folder.is_dir():
            arguments += ["--tmpfs", str(folder)]
    return arguments


def _outermost(folders: Iterable[Path]) -> list[Path]:
    """Return the folders, and what they really are where a link leads there, without those inside another."""
    wanted = {path for folder in folders for path in (folder, folder.resolve())}
    system = Path("/usr")
    return sorted(
        path for path in wanted if not _within(path, system) and not any(_within(path, o) for o in wanted - {path})
    )


def _within(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder)


def _workspace(workspace: Path) -> list[str]:
    arguments = ["--bind", str(workspace), str(workspace)]
    for name in _GIVEN:
        given = str(workspace / name)
        arguments += ["--ro-bind-try", given, given]
    return arguments
