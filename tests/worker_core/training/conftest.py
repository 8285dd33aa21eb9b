"""Fixtures of the job process's tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are collected without packages, so what they share is imported by its own name.
sys.path.insert(0, str(Path(__file__).parent))

from training_core import JobShop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[JobShop]:
    """Yield a maker of jobs; every job it started is gone afterwards."""
    made = JobShop(tmp_path)
    yield made
    made.close()
