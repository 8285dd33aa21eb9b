"""The device files of the GPUs that a job may use, and of no other."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_NVIDIA_SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


def gpu_nodes(devices: Sequence[str] | None, root: Path = Path("/")) -> list[Path]:
    """Return the existing device files for the GPUs with these UUIDs, below ``root``."""
    if not devices:
        return []
    found = list(_of_nvidia(devices, root))
    if not found and (root / "dev/kfd").exists():
        # ROCm has no device file per GPU for computing; HIP_VISIBLE_DEVICES alone chooses.
        found = [root / "dev/kfd", *_render_nodes(root)]
    if not found:
        found = [root / "dev/dxg"]  # Linux under Windows: one door for all
    return [node for node in found if node.exists()]


def gpu_facts(devices: Sequence[str] | None, root: Path = Path("/")) -> list[Path]:
    """Return the folders under /sys that a GPU's driver library reads; empty without a GPU."""
    if not devices:
        return []
    names = ("sys/bus/pci", "sys/devices", "sys/class/drm", "sys/class/kfd", "sys/module/nvidia", "sys/module/amdgpu")
    return [root / name for name in names if (root / name).exists()]


def _of_nvidia(devices: Sequence[str], root: Path) -> Iterator[Path]:
    cards = {card.uuid: card for card in _cards(root)}
    # A part of a card (MIG) has a UUID of its own, which the driver lists nowhere under /proc.
    chosen = [cards[uuid] for uuid in devices if uuid in cards]
    if not chosen and any(uuid.startswith("MIG-") for uuid in devices):
        chosen = list(cards.values())
    if cards and not chosen:
        return
    yield from (root / "dev" / name for name in _NVIDIA_SHARED if (root / "dev" / name).exists())
    if not cards:
        # A container may show the devices and not the driver's list; it has them chosen already.
        yield from sorted((root / "dev").glob("nvidia[0-9]*"))
        return
    yield root / "dev/nvidia-caps"
    for card in chosen:
        yield root / f"dev/nvidia{card.minor}"
        link = root / f"dev/dri/by-path/pci-{card.bus}-render"
        if link.exists():
            yield link.resolve()


class _Card:
    def __init__(self, bus: str, uuid: str, minor: str) -> None:
        self.bus, self.uuid, self.minor = bus, uuid, minor


def _cards(root: Path) -> Iterable[_Card]:
    for file in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        facts = dict(_facts(file.read_text(errors="replace")))
        if "GPU UUID" in facts and facts.get("Device Minor", "").isdigit():
            yield _Card(file.parent.name, facts["GPU UUID"], facts["Device Minor"])


def _facts(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()


def _render_nodes(root: Path) -> list[Path]:
    return sorted((root / "dev/dri").glob("renderD*"))
