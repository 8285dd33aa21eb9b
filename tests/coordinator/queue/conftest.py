"""A desk of the queue for each test."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.coordinator.queue.desk import Desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A desk of the test's own, in memory where that is a folder: durability is tested elsewhere."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        desk = Desk(Path(folder))
        yield desk
        desk.close()
