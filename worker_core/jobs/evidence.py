"""Evidence that the system ended processes because memory ran out."""

from pathlib import Path

_SYSTEM = Path("/proc/vmstat")
_CGROUPS = Path("/proc/self/cgroup")
_CGROUP_ROOT = Path("/sys/fs/cgroup")


def out_of_memory_kills(system: Path = _SYSTEM, cgroups: Path = _CGROUPS, root: Path = _CGROUP_ROOT) -> int:
    """Return how often memory ran out so far, in the whole system and in our own control group; 0 where unknown."""
    return _count(system) + sum(_count(folder / "memory.events") for folder in _own_groups(cgroups, root))


def out_of_memory_in(group: Path | None) -> int:
    """Return how often memory ran out in a job's own control group."""
    return 0 if group is None else _count(group / "memory.events")


def _count(file: Path) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    counts = [line.split() for line in lines if line.startswith("oom_kill ")]
    return sum(int(number) for _, number in counts)


def _own_groups(cgroups: Path, root: Path) -> list[Path]:
    try:
        lines = cgroups.read_text().splitlines()
    except OSError:
        return []
    return [root / line[3:].lstrip("/") for line in lines if line.startswith("0::")]
