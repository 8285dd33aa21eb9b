"""The blocking client of the terminal commands against a real server."""

import asyncio
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from worker_core.control.client import ControlClient, ControlError, CoreBusy, CoreGone, CoreNotRunning
from worker_core.control.endpoint import BadEndpoint, endpoint_alive, make_endpoint, read_endpoint, write_endpoint
from worker_core.control.messages import MAX_CLIENTS, ModeArgs, Snapshot
from worker_core.control.server import ControlServer
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.paths import Paths


async def test_it_asks_and_gets_typed_answers(server: ControlServer, paths: Paths) -> None:
    def talk() -> tuple[str, str, Any]:
        with ControlClient.connect(paths) as client:
            with pytest.raises(ControlError) as refused:
                client.request("unpair")
            mode = client.request("mode", ModeArgs(mode="drain"))
            return client.status().state, refused.value.code, mode

    assert await asyncio.to_thread(talk) == ("available", "not-paired", {"count": 2})


async def test_it_yields_snapshots_until_the_core_leaves(server: ControlServer, paths: Paths, answers: Any) -> None:
    seen: list[str] = []

    def watch() -> str:
        with ControlClient.connect(paths) as client:
            try:
                for item in client.snapshots():
                    assert isinstance(item, Snapshot)
                    seen.append(item.status.state)
                    loop.call_soon_threadsafe(came.set)
            except CoreGone as gone:
                return str(gone)
        return "ended by itself"

    loop, came = asyncio.get_running_loop(), asyncio.Event()
    watching = asyncio.create_task(asyncio.to_thread(watch))
    await came.wait()
    came.clear()
    answers.state = "training"
    server.publish()
    await came.wait()
    await server.stop()
    assert "closed" in await watching
    assert seen == ["available", "training"]


async def test_an_answer_that_does_not_come_is_a_timeout(server: ControlServer, paths: Paths, answers: Any) -> None:
    answers.hold.clear()

    def ask() -> None:
        with ControlClient.connect(paths) as client, pytest.raises(TimeoutError):
            client.request("status", timeout_s=0.2)

    await asyncio.to_thread(ask)


def test_without_a_core_it_says_so(paths: Paths) -> None:
    with pytest.raises(CoreNotRunning, match="stoker run"):
        ControlClient.connect(paths)


def test_a_file_left_by_a_killed_core_is_no_core(paths: Paths) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(20)
    dead = msgspec.structs.replace(make_endpoint("unix", str(paths.control_socket), "1"), pid=gone.pid)
    write_endpoint(paths, dead)
    assert not endpoint_alive(dead)
    with pytest.raises(CoreNotRunning):
        ControlClient.connect(paths)


def test_a_reused_pid_is_not_mistaken_for_the_core(paths: Paths) -> None:
    ours = make_endpoint("unix", str(paths.control_socket), "1")
    assert endpoint_alive(ours)
    assert not endpoint_alive(msgspec.structs.replace(ours, started=ours.started - 60))


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"{", "not a control file"), (b"[]", "not a control file"), (b"\xff", "not a control file")],
)
def test_a_file_that_is_garbage_is_told_as_such(paths: Paths, content: bytes, words: str) -> None:
    paths.control_file.write_bytes(content)
    paths.control_file.chmod(0o600)
    with pytest.raises(BadEndpoint, match=words):
        read_endpoint(paths)


def test_a_file_that_others_can_read_is_not_trusted(paths: Paths) -> None:
    write_endpoint(paths, make_endpoint("unix", "x", "1"))
    paths.control_file.chmod(0o644)
    with pytest.raises(BadEndpoint, match="other users"):
        read_endpoint(paths)


def test_every_endpoint_has_a_token_of_its_own() -> None:
    tokens = {make_endpoint("unix", "x", "1").token for _ in range(10)}
    assert len(tokens) == 10
    assert all(len(token) == 64 for token in tokens)
    assert os.getpid() == make_endpoint("unix", "x", "1").pid


async def test_a_burst_of_callers_is_served_one_after_the_other_and_none_hears_that_no_worker_runs(
    server: ControlServer, paths: Paths
) -> None:
    def ask(_: int) -> str:
        with ControlClient.connect(paths, timeout_s=30.0) as client:
            return client.status().state

    with ThreadPoolExecutor(120) as pool:
        loop = asyncio.get_running_loop()
        states = await asyncio.gather(*(loop.run_in_executor(pool, ask, number) for number in range(120)))
    assert states == ["available"] * 120


async def test_a_worker_with_all_lines_taken_is_busy_and_not_gone(server: ControlServer, paths: Paths) -> None:
    def call() -> None:
        with ExitStack() as held:
            for _ in range(MAX_CLIENTS):
                held.enter_context(ControlClient.connect(paths))
            with pytest.raises(CoreBusy, match="as many clients as it can"):
                ControlClient.connect(paths, timeout_s=0.5)
        ControlClient.connect(paths).close()

    await asyncio.to_thread(call)


def test_a_queue_of_callers_that_is_full_is_busy_and_not_gone(paths: Paths) -> None:
    with socket.socket(socket.AF_UNIX) as deaf, ExitStack() as callers:
        private_folder(paths.control_socket.parent)
        deaf.bind(str(paths.control_socket))
        deaf.listen(0)
        write_endpoint(paths, make_endpoint("unix", str(paths.control_socket), "1"))
        for _ in range(2):
            caller = callers.enter_context(socket.socket(socket.AF_UNIX))
            caller.setblocking(False)
            caller.connect_ex(str(paths.control_socket))
        with pytest.raises(CoreBusy):
            ControlClient.connect(paths, timeout_s=0.5)
