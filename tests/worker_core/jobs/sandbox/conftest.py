"""Containment as this machine has it: found once, by trying."""

from collections.abc import Callable
from pathlib import Path

import pytest

from worker_core.jobs.sandbox.cell import Containment
from worker_core.jobs.sandbox.confinement import Confinement, Policy
from worker_core.jobs.sandbox.finder import find_containment
from worker_core.machine.paths import find_paths


@pytest.fixture(scope="session")
def containment(tmp_path_factory: pytest.TempPathFactory) -> Containment:
    found = find_containment(find_paths(str(tmp_path_factory.mktemp("finder"))))
    assert found.by == "bubblewrap", found.detail
    return found


@pytest.fixture
def confine(containment: Containment) -> Callable[..., Confinement]:
    """Return what contains a job under the policy given by keywords."""
    return lambda **policy: Confinement(containment, Policy(**policy))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    (made / "tmp").mkdir(parents=True)
    return made
