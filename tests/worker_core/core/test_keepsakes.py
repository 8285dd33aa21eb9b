"""Copies of attempts that lost their job: kept for a day, few at a time, within their room."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from worker_core.core import keepsakes
from worker_core.core.keepsakes import KEEP_COPIES, keep, still_kept
from worker_core.jobs.workspace import workspace_path
from worker_core.journal.journal import Journal
from worker_core.machine.clocks import SystemClock
from worker_core.machine.paths import Paths, find_paths


class Clock(SystemClock):
    """The machine's clock, whose date can be set."""

    date = 1_000_000.0

    def wall(self) -> float:
        return self.date


class Shelf:
    """Where copies stand, with the list of them."""

    def __init__(self, paths: Paths, journal: Journal) -> None:
        self.paths, self.journal, self.clock = paths, journal, Clock()

    async def put(self, name: str) -> None:
        folder = workspace_path(self.paths, name)
        folder.mkdir(parents=True)
        (folder / "model").write_bytes(b"x" * 1_000_000)
        await keep(self.journal, self.clock, name)

    async def kept(self, room: int = 1 << 30) -> set[str]:
        return await still_kept(self.paths, self.journal, self.clock, room)


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    paths = find_paths(str(tmp_path / "home"))
    paths.data.mkdir(parents=True)
    journal = Journal.open(paths.state_db, boot_id="this boot")
    yield Shelf(paths, journal)
    await journal.close()


async def test_copies_stay_within_their_room_and_few_at_a_time(shelf: Shelf) -> None:
    names = [f"att_{index}" for index in range(KEEP_COPIES + 2)]
    for name in names:
        await shelf.put(name)
    assert await shelf.kept() == set(names[-KEEP_COPIES:])
    assert await shelf.kept(2_500_000) == set(names[-2:])
    gone = workspace_path(shelf.paths, names[-1])
    (gone / "model").unlink()
    gone.rmdir()
    assert await shelf.kept() == {names[-2]}


async def test_a_copy_that_is_put_aside_while_others_are_sorted_out_stays(shelf: Shelf) -> None:
    names = ("att_1", "att_2", "att_3")
    for name in names:
        sorting = asyncio.ensure_future(shelf.kept())
        await asyncio.sleep(0)  # it has read the list
        await shelf.put(name)
        await sorting
    assert await shelf.kept() == set(names)


async def test_a_day_later_a_copy_goes_and_a_date_set_back_does_not_keep_it_for_ever(shelf: Shelf) -> None:
    await shelf.put("att_1")
    shelf.clock.date -= 30 * 86400
    assert await shelf.kept() == {"att_1"}
    shelf.clock.date += keepsakes.KEEP_S + 1
    assert await shelf.kept() == set()
    assert shelf.journal.fact("kept-workspaces") is None
