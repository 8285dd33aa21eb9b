"""Control groups on a tree of files that stands for the kernel's: none here can be made by the tests themselves."""

from pathlib import Path

import pytest

from worker_core.jobs.evidence import out_of_memory_in
from worker_core.jobs.sandbox.bounds import Bounds
from worker_core.jobs.sandbox.cell import Cell
from worker_core.jobs.sandbox.control_groups import find_control_groups
from worker_core.jobs.tree_use import TreeUse, read_tree_use

PID = 4711
FILES = {
    "cgroup.controllers": "cpu memory pids\n",
    "cgroup.subtree_control": "",
    "cgroup.procs": f"{PID}\n",
}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "self-cgroup"
    file.write_text("0::/user.slice/stoker.service\n")
    return file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "root" / "user.slice" / "stoker.service"
    (made / "core").mkdir(parents=True)
    (made / "core" / "cgroup.procs").touch()
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


def group_of(home: Path, attempt_id: str) -> Path:
    """Make the folder as the kernel would: with its files in it."""
    group = home / f"job-{attempt_id}"
    group.mkdir()
    for name in ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.weight", "cgroup.procs"):
        (group / name).touch()
    (group / "memory.current").write_text("12345\n")
    (group / "pids.current").write_text("7\n")
    (group / "memory.events").write_text("oom 1\noom_kill 2\n")
    return group


def test_a_delegated_group_is_divided_with_the_core_in_a_leaf(tmp_path: Path, home: Path, own: Path) -> None:
    groups = find_control_groups(tmp_path / "root", own, PID)
    assert groups is not None
    assert (home / "core" / "cgroup.procs").read_text() == str(PID)
    assert (home / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_a_core_that_starts_again_in_its_leaf_divides_nothing(tmp_path: Path, home: Path, own: Path) -> None:
    own.write_text("0::/user.slice/stoker.service/core\n")
    (home / "cgroup.subtree_control").write_text("memory pids\n")
    (home / "core" / "cgroup.controllers").write_text("memory pids\n")
    groups = find_control_groups(tmp_path / "root", own, PID)
    assert groups is not None
    assert groups.home == home


@pytest.mark.parametrize(
    ("name", "text"), [("cgroup.controllers", "cpu\n"), ("cgroup.procs", f"{PID}\n17\n")], ids=["no memory", "shared"]
)
def test_a_group_that_is_not_ours_alone_is_left_as_it_is(
    tmp_path: Path, home: Path, own: Path, name: str, text: str
) -> None:
    (home / name).write_text(text)
    assert find_control_groups(tmp_path / "root", own, PID) is None
    assert (home / "cgroup.subtree_control").read_text() == ""


def test_the_root_of_all_groups_is_never_divided(tmp_path: Path, home: Path, own: Path) -> None:
    own.write_text("9:name=systemd:/\n0::/\n")
    assert find_control_groups(tmp_path / "root", own, PID) is None
    assert find_control_groups(tmp_path / "root", tmp_path / "none", PID) is None


def test_a_job_is_bound_measured_and_judged_by_its_group(tmp_path: Path, home: Path, own: Path) -> None:
    groups = find_control_groups(tmp_path / "root", own, PID)
    assert groups is not None
    made = group_of(home, "att")
    cell = Cell(tmp_path, "att", None, network=False, memory_bytes=1 << 30, processes=99)
    group = Bounds(groups).bind(2**22 + 1, cell)  # no such process: its own limits cannot be set, its group can
    assert group == made
    written = {
        name: (made / name).read_text()
        for name in ("memory.max", "pids.max", "memory.swap.max", "cpu.weight", "cgroup.procs")
    }
    assert written == {
        "memory.max": str(1 << 30),
        "pids.max": "99",
        "memory.swap.max": "0",
        "cpu.weight": "10",
        "cgroup.procs": str(2**22 + 1),
    }
    assert read_tree_use(1, made, 1) == TreeUse(12345, 7)
    assert out_of_memory_in(made) == 2
