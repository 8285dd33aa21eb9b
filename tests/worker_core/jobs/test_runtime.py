"""What a contained job may read of the Python that runs it."""

import site
import sys
from pathlib import Path

import pytest

from worker_core.jobs.runtime import python_folders


def test_packages_that_lie_outside_the_environment_are_there_for_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path / "shared" / "site-packages"
    others.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(others), str(tmp_path)])
    folders = python_folders()
    assert others in folders
    assert tmp_path not in folders  # a folder that merely is on the path may hold anything


def test_packages_of_the_person_are_none_of_a_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "site-packages"
    own.mkdir()
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(own))
    monkeypatch.setattr(sys, "path", [*sys.path, str(own)])
    assert own not in python_folders()
