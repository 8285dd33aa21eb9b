"""How a coordinator is put together: which addresses count as ours, and what a failed part does."""

import asyncio

import pytest

from coordinator.assembly import build_services, origins_of, running
from coordinator.rounds import every
from coordinator.settings import Settings
from coordinator.storage.data_folder import DataFolder


@pytest.mark.parametrize(
    ("public_url", "origins"),
    [
        ("http://127.0.0.1:81", ["http://127.0.0.1:81", "http://localhost:81", "http://[::1]:81"]),
        ("http://[::1]:81", ["http://127.0.0.1:81", "http://localhost:81", "http://[::1]:81"]),
        ("https://Stoker.Example.org", ["https://stoker.example.org", "https://stoker.example.org:443"]),
        ("https://stoker.example.org:443/x", ["https://stoker.example.org", "https://stoker.example.org:443"]),
        ("https://stoker.example.org:8443", ["https://stoker.example.org:8443"]),
    ],
)
def test_every_spelling_of_our_address_counts(public_url, origins):
    assert origins_of(public_url) == origins


async def test_a_part_that_fails_stops_the_whole(tmp_path):
    folder = DataFolder.hold(tmp_path)
    services = build_services(folder, Settings(), "http://127.0.0.1:1")

    async def fail() -> None:
        raise RuntimeError("a bug")

    services.queue.tasks = lambda: (fail(),)  # pyright: ignore[reportAttributeAccessIssue]
    async with running(services):
        async with asyncio.timeout(10):
            await services.stopping.wait()
        assert services.failed
    folder.release()


async def test_a_round_that_fails_is_followed_by_the_next():
    rounds: list[int] = []

    async def act() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            raise RuntimeError("once")

    task = asyncio.create_task(every(0.001, act))
    async with asyncio.timeout(10):
        while len(rounds) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert rounds[:3] == [0, 1, 2]
