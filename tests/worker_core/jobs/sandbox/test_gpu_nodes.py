"""A job sees the device files of its own GPU, and of no other."""

from pathlib import Path

import pytest

from worker_core.jobs.sandbox.gpu_nodes import gpu_facts, gpu_nodes

ONE, TWO = "GPU-11111111-aaaa", "GPU-22222222-bbbb"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two NVIDIA cards as the driver shows them."""
    for minor, (bus, uuid) in enumerate([("0000:01:00.0", ONE), ("0000:41:00.0", TWO)]):
        folder = tmp_path / "proc/driver/nvidia/gpus" / bus
        folder.mkdir(parents=True)
        text = f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n"
        (folder / "information").write_text(text)
        node(tmp_path, f"nvidia{minor}")
        node(tmp_path, f"dri/renderD{128 + minor}")
        (tmp_path / "dev/dri/by-path").mkdir(exist_ok=True)
        (tmp_path / f"dev/dri/by-path/pci-{bus}-render").symlink_to(f"../renderD{128 + minor}")
    for name in ("nvidiactl", "nvidia-uvm"):
        node(tmp_path, name)
    (tmp_path / "sys/bus/pci").mkdir(parents=True)
    return tmp_path


def node(root: Path, name: str) -> None:
    path = root / "dev" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def names(root: Path, *devices: str) -> list[str]:
    return [str(path.relative_to(root / "dev")) for path in gpu_nodes(devices, root)]


def test_only_the_assigned_card_is_there(machine: Path) -> None:
    assert names(machine, TWO) == ["nvidiactl", "nvidia-uvm", "nvidia1", "dri/renderD129"]
    assert names(machine, ONE) == ["nvidiactl", "nvidia-uvm", "nvidia0", "dri/renderD128"]


def test_a_job_without_a_gpu_sees_none_and_a_card_that_is_gone_gives_none(machine: Path) -> None:
    assert gpu_nodes(None, machine) == gpu_nodes((), machine) == []
    assert names(machine, "GPU-33333333-cccc") == []
    assert gpu_facts(None, machine) == []
    assert gpu_facts((ONE,), machine) == [machine / "sys/bus/pci"]


def test_a_part_of_a_card_comes_with_the_cards_that_may_hold_it(machine: Path) -> None:
    assert {"nvidia0", "nvidia1"} <= set(names(machine, "MIG-44444444-dddd"))


def test_a_container_that_hides_the_driver_s_list_shows_what_it_has(tmp_path: Path) -> None:
    for name in ("nvidiactl", "nvidia3"):
        node(tmp_path, name)
    assert names(tmp_path, ONE) == ["nvidiactl", "nvidia3"]


def test_linux_under_windows_has_one_door(tmp_path: Path) -> None:
    node(tmp_path, "dxg")
    assert names(tmp_path, ONE) == ["dxg"]


def test_an_amd_card_is_reached_through_its_one_door(tmp_path: Path) -> None:
    node(tmp_path, "kfd")
    node(tmp_path, "dri/renderD128")
    assert names(tmp_path, "GPU-amd") == ["kfd", "dri/renderD128"]
