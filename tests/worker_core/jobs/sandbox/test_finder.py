"""What contains jobs is found by trying; what is missing or may not run is told apart, with the cure."""

from pathlib import Path
from typing import Any

import pytest

from worker_core.jobs.sandbox import finder
from worker_core.jobs.sandbox.cell import is_contained, shown
from worker_core.jobs.sandbox.confinement import Confinement, Policy, most_memory
from worker_core.jobs.sandbox.process_group import ProcessGroup
from worker_core.machine.paths import Paths
from worker_core.wire.work import Limits

LIMITS = Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=10)


def pretended_bwrap(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_where_bubblewrap_works_jobs_are_contained(paths: Paths) -> None:
    found = finder.find_containment(paths)
    assert is_contained(found)
    seen = shown(found, allow_network=False)
    assert (seen.by, seen.network, seen.limits, seen.detail) == ("bubblewrap", False, ("memory", "processes"), "")
    assert shown(found, allow_network=True).network


def test_where_it_is_missing_no_job_is_taken_and_the_cure_is_to_install_it(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = finder.find_containment(paths)
    assert (found.by, is_contained(found)) == ("process-group", False)
    assert "apt-get install bubblewrap" in Confinement(found).refusal
    assert "allow_uncontained" in Confinement(found).refusal
    assert Confinement(found, Policy(allow_uncontained=True)).refusal == ""
    assert shown(found, allow_network=False).network  # nothing keeps a job from it


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "apparmor_restrict_unprivileged_userns"),
        ("echo 'bwrap: No permissions to create a new namespace' >&2; exit 1", "container: run the worker outside"),
        ("echo 'bwrap: Unknown option --json-status-fd' >&2; exit 1", "does not work here: bwrap: Unknown option"),
        ("exit 3", "bubblewrap made no sandbox"),
        ("exec /bin/sleep 60", "did not start within"),
    ],
)
def test_present_and_not_working_is_told_apart(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    monkeypatch.setattr(finder, "_TRY_S", (0.3, 0.4))
    pretended_bwrap(tmp_path, monkeypatch, script)
    found = finder.find_containment(paths)
    assert found.by == "process-group"
    assert words in found.detail


def test_a_job_gets_no_more_memory_than_the_owner_s_share() -> None:
    share = most_memory(Policy(max_memory_share=0.5), LIMITS)
    asked = Limits(max_runtime_s=60, max_disk_bytes=1, stop_grace_s=1, max_memory_bytes=1 << 28)
    greedy = Limits(max_runtime_s=60, max_disk_bytes=1, stop_grace_s=1, max_memory_bytes=1 << 60)
    assert most_memory(Policy(max_memory_share=0.5), asked) == 1 << 28
    assert most_memory(Policy(max_memory_share=0.5), greedy) == share < most_memory(Policy(), LIMITS)


@pytest.mark.parametrize(
    ("asks", "allowed", "gets"), [("any", True, True), ("any", False, False), ("none", True, False)]
)
def test_the_network_takes_two(asks: Any, allowed: bool, gets: bool, tmp_path: Path) -> None:
    from worker_core.jobs.runtime import Runtime

    limits = Limits(max_runtime_s=60, max_disk_bytes=1, stop_grace_s=1, network=asks)
    held = Confinement(ProcessGroup(), Policy(allow_network=allowed))
    assert held.cell(tmp_path, "att", limits, None, Runtime(())).network is gets
