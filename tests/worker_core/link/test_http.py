"""The pools of connections: churn leaks no slot, faults bring a fresh pool, sleep drops every socket."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from scripted_coordinator import Answer, ScriptedCoordinator, message

from worker_core.link.address import Address
from worker_core.link.client import CoordinatorClient
from worker_core.link.faults import TransportFault
from worker_core.link.http import Limits, Plane, make_trust

META = {"gen": 1, "api": [1, 1], "server_time": "", "min_worker_version": ""}


@pytest.fixture
async def plane(coordinator: ScriptedCoordinator) -> Any:
    address = Address.parse(coordinator.url)
    made = Plane(address, Limits(read_s=20.0, connections=4), make_trust(address))
    yield made
    await made.close()


def slow(seconds: float) -> Any:
    async def answer(_: Any) -> Answer:
        await asyncio.sleep(seconds)
        return message(META)

    return answer


async def test_callers_that_are_cancelled_again_and_again_leak_no_slot(
    coordinator: ScriptedCoordinator, plane: Plane
) -> None:
    """httpx 0.28 loses a pool's slot when a request is cancelled at the wrong moment; three lost of four wedge it."""
    coordinator.script("GET", "/slow", *[slow(0.004)] * 240)
    for round_ in range(40):
        callers = [asyncio.create_task(plane.exchange("GET", "/slow", {})) for _ in range(6)]
        await asyncio.sleep(0.0005 * (round_ % 25))
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(plane.exchange("GET", "/v1/meta", {}) for _ in range(4)))
    assert [answer.status for answer in answers] == [200] * 4


async def test_a_cancelled_caller_does_not_cancel_the_request(coordinator: ScriptedCoordinator, plane: Plane) -> None:
    done = asyncio.Event()

    async def answer(_: Any) -> Answer:
        await asyncio.sleep(0.1)
        done.set()
        return message(META)

    coordinator.script("GET", "/slow", answer)
    caller = asyncio.create_task(plane.exchange("GET", "/slow", {}))
    await asyncio.sleep(0.03)
    caller.cancel()
    async with asyncio.timeout(2):
        await done.wait()
    assert (await plane.exchange("GET", "/v1/meta", {})).status == 200


async def test_three_faults_in_a_row_bring_a_fresh_pool(coordinator: ScriptedCoordinator, plane: Plane) -> None:
    await plane.exchange("GET", "/v1/meta", {})
    before = plane._pool
    coordinator.script("GET", "/torn", *[Answer(raw=b"")] * 3)
    for _ in range(3):
        with pytest.raises(TransportFault):
            await plane.exchange("GET", "/torn", {})
    assert (await plane.exchange("GET", "/v1/meta", {})).status == 200
    assert plane._pool is not before


async def test_after_sleep_open_requests_end_with_a_fault_and_the_next_one_works(
    coordinator: ScriptedCoordinator, plane: Plane
) -> None:
    coordinator.script("GET", "/slow", slow(30))
    waiting = asyncio.create_task(plane.exchange("GET", "/slow", {}))
    await coordinator.until(lambda: coordinator.seen)
    plane.drop_connections()
    async with asyncio.timeout(5):
        with pytest.raises(TransportFault):
            await waiting
        assert (await plane.exchange("GET", "/v1/meta", {})).status == 200


async def test_silence_is_a_timeout_with_the_hosts_name(coordinator: ScriptedCoordinator) -> None:
    address = Address.parse(coordinator.url)
    hasty = Plane(address, Limits(read_s=0.2, connections=1), make_trust(address))
    coordinator.script("GET", "/slow", slow(5))
    with pytest.raises(TransportFault, match=r"127\.0\.0\.1 did not answer in time") as fault:
        await hasty.exchange("GET", "/slow", {})
    assert fault.value.cause == "timeout"
    await hasty.close()


async def test_an_endless_answer_is_cut_off(coordinator: ScriptedCoordinator, plane: Plane) -> None:
    coordinator.script("GET", "/huge", Answer(200, b"x" * (17 << 20)))
    with pytest.raises(TransportFault, match="more than"):
        await plane.exchange("GET", "/huge", {})


async def test_an_input_is_fetched_from_where_it_stopped(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, tmp_path: Any
) -> None:
    content = bytes(range(256)) * 40
    file = tmp_path / "input"
    file.write_bytes(content[:1000])
    rest = Answer(206, content[1000:], "application/octet-stream")
    coordinator.script("GET", "/v1/attempts/att/inputs/.*", rest)
    await client.fetch_input("att", "0" * 64, file)
    assert file.read_bytes() == content
    assert coordinator.seen[-1].headers["range"] == "bytes=1000-"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
async def test_a_full_disk_under_an_input_is_no_fault_of_the_connection(
    coordinator: ScriptedCoordinator, client: CoordinatorClient
) -> None:
    content = Answer(206, bytes(1 << 20), "application/octet-stream")
    coordinator.script("GET", "/v1/attempts/att/inputs/.*", content)
    with pytest.raises(OSError, match="No space left"):
        await client.fetch_input("att", "0" * 64, Path("/dev/full"))


async def test_a_portals_page_never_gets_into_an_inputs_file(
    coordinator: ScriptedCoordinator, client: CoordinatorClient, tmp_path: Any
) -> None:
    page = Answer(200, b"<html>", "application/octet-stream", ours=False)
    coordinator.script("GET", "/v1/attempts/att/inputs/.*", page)
    with pytest.raises(TransportFault):
        await client.fetch_input("att", "0" * 64, tmp_path / "input")
    assert (tmp_path / "input").read_bytes() == b""
