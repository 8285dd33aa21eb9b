"""Attempts that have left the slot: what the coordinator says of them again and again is done once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from worker_core.core.closing import Closing
from worker_core.core.tasks import Tasks
from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, NewAttempt
from worker_core.machine.clocks import SystemClock
from worker_core.wire.work import Accepted, Lease, Limits, Release

LIMITS = Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=10)


class Deliveries:
    """Writes down which deliveries were begun and dropped."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.dropped: list[str] = []

    def begin(self, row: Any) -> None:
        self.begun.append(row.attempt_id)

    def drop(self, attempt_id: str) -> None:
        self.dropped.append(attempt_id)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    opened = Journal.open(tmp_path / "state.db", boot_id="one")
    yield opened
    await opened.close()


async def given_back(journal: Journal, *names: str) -> tuple[Any, Deliveries, Tasks]:
    """Attempts that were stopped and are on their way back to the coordinator."""
    tasks, deliveries = Tasks("test"), Deliveries()
    closing: Any = Closing(journal, SystemClock(), tasks)
    closing.attach(deliveries)
    for name in names:
        accepted = Accepted(
            lease=Lease(epoch=1, ttl=300), spec="{}", job_id=name, job_name=name, attempt=1, limits=LIMITS
        )
        members = {"job_id": name, "job_name": name, "kind": "rl-session", "ordinal": 1, "epoch": 1}
        await journal.add_attempt(NewAttempt(attempt_id=name, offer_jws="signed", accepted=accepted, **members))  # type: ignore[arg-type]
        await journal.set_end(name, AttemptEnd(how="stopped"))
        await journal.put_release(name, Release(epoch=1, reason="stopped"))
        closing.begin(await journal.attempt(name))
    return closing, deliveries, tasks


async def test_a_cancel_that_each_heartbeat_repeats_begins_the_delivery_anew_only_once(journal: Journal) -> None:
    closing, deliveries, tasks = await given_back(journal, "att_1")
    for _ in range(3):
        closing.cancel("att_1")
        await tasks.settle(5)
    assert (deliveries.begun, deliveries.dropped) == (["att_1", "att_1"], ["att_1"])
    completion = await journal.completion("att_1")
    assert completion is not None
    assert completion.outcome == "canceled"


async def test_two_copies_that_lose_their_jobs_at_once_are_both_kept(journal: Journal) -> None:
    closing, _, tasks = await given_back(journal, "att_1", "att_2")
    for name in ("att_1", "att_2"):
        closing.abandon(name)
    await asyncio.wait_for(tasks.settle(5), 10)
    kept = journal.fact("kept-workspaces") or ""
    assert "att_1" in kept
    assert "att_2" in kept
    assert await journal.attempts() == []
