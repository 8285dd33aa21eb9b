"""What a job may see, as the arguments, profiles and structures say it for each system."""

import ctypes
from pathlib import Path

import pytest

from worker_core.jobs.sandbox import job_object
from worker_core.jobs.sandbox.bubblewrap_view import Hidden, view_arguments
from worker_core.jobs.sandbox.cell import Cell, Held
from worker_core.jobs.sandbox.seatbelt import Seatbelt, profile
from worker_core.jobs.sandbox.seccomp import system_call_filter


def cell(workspace: Path, *, network: bool = False, readable: tuple[Path, ...] = ()) -> Cell:
    return Cell(workspace, "att", None, network=network, memory_bytes=1 << 30, processes=50, readable=readable)


def pairs(arguments: list[str], option: str) -> list[str]:
    return [arguments[at + 2] for at, word in enumerate(arguments) if word == option]


def test_only_the_workspace_can_be_written_and_what_the_core_gave_can_not(workspace: Path) -> None:
    arguments = view_arguments(cell(workspace))
    assert pairs(arguments, "--bind") == [str(workspace)]
    given = [path for path in pairs(arguments, "--ro-bind-try") if path.startswith(str(workspace))]
    assert [Path(path).name for path in given] == ["inputs", "code", "resume", "spec.json", "job.json"]
    assert "--share-net" not in arguments
    assert "--die-with-parent" not in arguments  # it would kill a job before its last checkpoint


def test_nothing_of_home_run_or_var_is_there(workspace: Path) -> None:
    seen = [
        path for option in ("--ro-bind", "--ro-bind-try") for path in pairs(view_arguments(cell(workspace)), option)
    ]
    outside = [path for path in seen if not path.startswith(str(workspace))]
    assert {path.split("/")[1] for path in outside} <= {
        "usr",
        "lib",
        "lib64",
        "bin",
        "sbin",
        "opt",
        "etc",
        "proc",
        "sys",
    }
    assert "/etc/shadow" not in outside
    assert "/etc/resolv.conf" not in outside
    assert "/etc/resolv.conf" in pairs(view_arguments(cell(workspace, network=True)), "--ro-bind-try")


def test_the_worker_s_own_folders_are_empty_where_something_readable_holds_them(
    tmp_path: Path, workspace: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    hidden = Hidden((data, Path("/somewhere/else")))
    arguments = view_arguments(cell(workspace, readable=(tmp_path, tmp_path / "inner")), hidden)
    at = arguments.index(str(data))
    assert arguments[at - 1] == "--tmpfs"
    assert arguments.index(str(tmp_path)) < at < arguments.index(str(workspace))
    assert str(tmp_path / "inner") not in arguments  # it is in the other
    assert "/somewhere/else" not in arguments


def test_a_link_to_a_readable_folder_leads_somewhere(tmp_path: Path, workspace: Path) -> None:
    real = tmp_path / "cpython-3.11.7"
    real.mkdir()
    link = tmp_path / "cpython-3.11"
    link.symlink_to(real)
    assert {str(link), str(real)} <= set(pairs(view_arguments(cell(workspace, readable=(link,))), "--ro-bind-try"))


@pytest.mark.parametrize(("code", "meaning"), [(0, 0), (1, 1), (128, 128), (139, -11), (137, -9), (193, 193), (-9, -9)])
def test_an_exit_code_of_the_sandbox_names_the_signal(code: int, meaning: int) -> None:
    assert Held(codes_from_shell=True).exit_code(code) == meaning
    assert Held().exit_code(code) == code


def test_the_filter_is_known_for_two_machines_and_whole() -> None:
    for machine in ("x86_64", "aarch64"):
        program = system_call_filter(machine)
        assert program is not None
        assert len(program) % 8 == 0
        assert len(program) // 8 < 4096  # the kernel takes no more
    assert system_call_filter("riscv64") is None


def test_the_profile_of_macos_refuses_by_default(workspace: Path) -> None:
    text = profile(cell(workspace, readable=(Path('/Users/me/a "b"'),)), Hidden((Path("/Users/me/stoker"),)))
    lines = text.splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert "network" not in text
    assert '(subpath "/Users/me/a \\"b\\"")' in text
    assert lines[-1].startswith("(deny file-write*")  # the last rule wins
    assert '(deny file-read* file-write* (subpath "/Users/me/stoker"))' in lines
    assert "(allow network*)" in profile(cell(workspace, network=True))
    assert text.count("(") == text.count(")")


def test_a_job_of_macos_is_started_under_its_profile(workspace: Path) -> None:
    with Seatbelt().launch(cell(workspace)) as launch:
        command = launch.wrap(["python", "-m", "job"])
    assert command[:2] == ["/usr/bin/sandbox-exec", "-p"]
    assert command[3:] == ["python", "-m", "job"]


def test_the_structures_of_windows_have_the_sizes_of_windows(workspace: Path) -> None:
    assert ctypes.sizeof(job_object.BasicLimits) == 64
    assert ctypes.sizeof(job_object.IoCounters) == 48
    assert ctypes.sizeof(job_object.ExtendedLimits) == 144
    limits = job_object.limits_of(cell(workspace))
    assert limits.basic.limit_flags == 0x2000 | 0x400 | 0x200 | 0x20 | 0x8
    assert limits.basic.limit_flags & 0x1800 == 0  # no breaking away, silent or asked for
    assert (limits.basic.active_process_limit, limits.job_memory) == (50, 1 << 30)
