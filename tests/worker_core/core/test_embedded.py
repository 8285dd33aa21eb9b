"""The coordinator on this computer: started with the core, on one port, with one account."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from worker_core.core.embedded import EmbeddedCoordinator, EmbeddedFailed
from worker_core.core.embedded_child import FILE_NAME
from worker_core.link.address import Address
from worker_core.link.faults import TransportFault
from worker_core.link.http import Limits, Plane, make_trust
from worker_core.machine.spawn import coordinator_command, spawn


class Home:
    """What a core remembers of its embedded coordinator."""

    def __init__(self, data: Path) -> None:
        self.data, self.port, self.account = data, 0, ""
        self.made: list[EmbeddedCoordinator] = []

    def make(self) -> EmbeddedCoordinator:
        made = EmbeddedCoordinator(self.data, self.port, self.account, self.remember)
        self.made.append(made)
        return made

    def remember(self, port: int, account: str) -> None:
        self.port, self.account = port, account


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    made = Home(tmp_path / "coordinator")
    yield made
    for embedded in made.made:
        await embedded.stop()


async def answers(url: str) -> bool:
    address = Address.parse(url)
    plane = Plane(address, Limits(read_s=5, connections=1), make_trust(address))
    try:
        return (await plane.exchange("GET", "/v1/meta", {})).status == 200
    finally:
        await plane.close()


async def test_it_keeps_its_port_and_its_account_over_restarts_and_ends_with_its_core(home: Home) -> None:
    first = home.make()
    url = await first.ready()
    assert await answers(url)
    assert home.port == int(url.rpartition(":")[2])
    await first.add_account("ada@example.org", "a long enough password")
    assert home.account == "ada@example.org"
    await first.add_account("ada@example.org", "whatever it is")
    with pytest.raises(EmbeddedFailed, match="characters"):
        await first.add_account("bob@example.org", "short")
    process = first._process
    assert process is not None
    await first.stop()
    assert process.poll() is not None
    second = home.make()
    assert await second.ready() == url
    killed = second._process
    assert killed is not None
    killed.kill()
    async with asyncio.timeout(30):
        while second._process is killed or not await _alive(url):  # noqa: ASYNC110 - another process's state
            await asyncio.sleep(0.1)


async def test_one_that_a_killed_core_left_is_ended_and_the_next_core_has_its_own(home: Home) -> None:
    first = home.make()
    url = await first.ready()
    left = first._process
    assert left is not None
    assert first._task is not None
    first._task.cancel()  # no more: a killed core does not stop its child
    second = home.make()
    second.start()
    await asyncio.to_thread(left.wait, 20)
    assert await second.ready() == url
    own = second._process
    assert own is not None
    await second.stop()
    assert own.poll() is not None
    assert not (home.data / FILE_NAME).exists()


async def test_one_that_a_person_started_is_used_and_left_alone(home: Home) -> None:
    home.data.mkdir(mode=0o700)
    command = coordinator_command("serve", "--data", str(home.data), "--port", "0", "--json")
    theirs = spawn(command, stdout=subprocess.PIPE)
    try:
        assert theirs.stdout is not None
        url = json.loads(await asyncio.to_thread(theirs.stdout.readline))["url"]
        home.port = int(url.rpartition(":")[2].strip("/"))
        ours = home.make()
        assert await ours.ready() == url.rstrip("/")
        await ours.stop()
        assert theirs.poll() is None
    finally:
        theirs.kill()
        theirs.communicate()


async def _alive(url: str) -> bool:
    try:
        return await answers(url)
    except TransportFault:
        return False
