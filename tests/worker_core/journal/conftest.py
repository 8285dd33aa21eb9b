"""A journal in a fresh folder, and attempts to put into it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from worker_core.journal.journal import Journal
from worker_core.journal.records import NewAttempt
from worker_core.wire.work import Accepted, Lease, Limits


def new_attempt(attempt_id: str = "att_1") -> NewAttempt:
    limits = Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=10)
    return NewAttempt(
        attempt_id=attempt_id,
        job_id="job_1",
        job_name="test",
        kind="rl-session",
        ordinal=1,
        epoch=1,
        offer_jws="signed",
        accepted=Accepted(
            lease=Lease(epoch=1, ttl=300), spec="{}", job_id="job_1", job_name="test", attempt=1, limits=limits
        ),
    )


@pytest.fixture
def attempt() -> Callable[..., NewAttempt]:
    return new_attempt


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def journal(file: Path) -> AsyncIterator[Journal]:
    opened = Journal.open(file, boot_id="one")
    yield opened
    await opened.close()
