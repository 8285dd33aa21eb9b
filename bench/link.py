"""How workers behave when the way to their coordinator fails, with the real intervals: attempts and returns.

Four troubles at the same time, each with workers of its own: nobody listens; every line is taken and closed at once;
the coordinator answers 503 for two minutes; open lines swallow everything while new ones work. The exit code is 1 for a
missed target.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from worker_core.journal.journal import Journal
from worker_core.link.address import Address
from worker_core.link.client import CoordinatorClient
from worker_core.link.contact import Contact, Introduction, Posture
from worker_core.link.exchange import Exchanger
from worker_core.link.identity import WorkerKey
from worker_core.link.session import Connection
from worker_core.link.signatures import PinnedCoordinator
from worker_core.machine.clocks import SystemClock
from worker_core.wire.session import Authorization, Control, Parameters, Verdict
from worker_core.wire.signed import Offer, Revocation
from worker_core.wire.work import LeaseState

WORKERS = 20
ATTEMPTS_IN_TEN_MINUTES = 40
RETURN_S = 60.0
BUSY_S = 120.0
_SETTLE_S = 30.0
_MANY = 100_000
_AT_FIRST = 24
"""Of the attempts allowed, those after the first seconds, in which waits are still short; these depend on the time."""

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "worker_core" / "link"))
ScriptedCoordinator: Any = import_module("scripted_coordinator").ScriptedCoordinator
"""The coordinator of the tests, which answers over real HTTP."""

Mode = Literal["pass", "slam", "swallow"]


class Gate:
    """One worker's way to a coordinator, which can be shut, slammed or made to swallow."""

    def __init__(self, upstream: int) -> None:
        self.mode: Mode = "pass"
        self.port = 0
        self._upstream = upstream
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, on the port of before if there was one."""
        self._server = await asyncio.start_server(self._receive, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Listen no more and drop every line."""
        if self._server is not None:
            self._server.close()
        for line in tuple(self._lines):
            line.transport.abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def swallow(self) -> None:
        """Pass nothing on any more on the lines that are open now; new ones are good."""
        for task in tuple(self._tasks):
            task.cancel()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode == "slam":
            writer.transport.abort()
            return
        self._lines.add(writer)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        self._lines.add(far_writer)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(_pass_on(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while received := await source.read(65536):
            sink.write(received)
            await sink.drain()
        sink.close()
    except OSError:
        sink.close()


class Idle:
    """An idle worker, as its contact sees it: notes when requests failed, and when a poll reached a coordinator."""

    def __init__(self, gate: Gate, number: int) -> None:
        self.gate = gate
        self.name = f"owner:{number}"
        self.failures: list[float] = []
        self.polls: list[float] = []

    def posture(self) -> Posture:
        return Posture(state="available", reasons=(self.name,), local_mode="run", free_slots=1)

    async def introduction(self) -> Introduction:
        return Introduction(worker_id="wrk_1", boot_id="boot", version="0", capabilities={}, held=())

    def connected(self, verdicts: tuple[Verdict, ...]) -> None:
        return

    def answered(self) -> None:
        return

    def polled(self) -> None:
        return

    def failed(self, fault: Exception) -> None:
        self.failures.append(time.monotonic())

    def control_seen(self, control: Control) -> None:
        return

    def authorization_seen(self, authorization: Authorization) -> None:
        return

    def offer_seen(self, offer: Offer, jws: str) -> bool:
        return False

    def lease_seen(self, lease: LeaseState, sent_at: float) -> None:
        return

    def revoked(self, revocation: Revocation) -> None:
        return


class Fleet:
    """Some idle workers of one coordinator, each behind a gate of its own."""

    def __init__(self, folder: Path, count: int) -> None:
        self.coordinator = ScriptedCoordinator()
        self.coordinator.params = Parameters()
        self.workers: list[Idle] = []
        self.busy_until = 0.0
        self._folder = folder
        self._count = count

    async def open(self, stack: AsyncExitStack) -> None:
        """Start everything; the stack ends it."""
        self.coordinator.script("POST", "/v1/poll", *[self._take_poll] * _MANY)
        await self.coordinator.start()
        stack.push_async_callback(self.coordinator.stop)
        for number in range(self._count):
            gate = Gate(self.coordinator.port)
            await gate.open()
            stack.push_async_callback(gate.close)
            self.workers.append(await self._worker(gate, number, stack))
        await _until(lambda: all(worker.polls for worker in self.workers), 60.0)

    async def _worker(self, gate: Gate, number: int, stack: AsyncExitStack) -> Idle:
        host, key, clock = Idle(gate, number), WorkerKey.generate(), SystemClock()
        journal = Journal.open(self._folder / f"{id(self)}-{number}.db", boot_id="boot")
        stack.push_async_callback(journal.close)
        exchanger = Exchanger(Address.parse(f"http://127.0.0.1:{gate.port}"), key, clock)
        stack.push_async_callback(exchanger.close)
        client = CoordinatorClient(exchanger)
        pinned = PinnedCoordinator(worker_id="wrk_1", thumbprint=key.thumbprint, jwks=self.coordinator.jwks)
        contact = Contact(client, Connection(client, journal), pinned, host, clock)
        contact.start()
        stack.push_async_callback(contact.stop)
        return host

    def _take_poll(self, seen: Any) -> Any:
        """Note whose poll came, and refuse it while the coordinator is busy."""
        if time.monotonic() < self.busy_until:
            refusal = ScriptedCoordinator.refusal("internal")
            refusal.status = 503
            return refusal
        names = seen.json()["reasons"]
        for worker in self.workers:
            if worker.name in names:
                worker.polls.append(time.monotonic())
        return None


async def refused(fleet: Fleet, minutes: float) -> dict[str, object]:
    """Nobody listens."""
    begun = time.monotonic()
    for worker in fleet.workers:
        await worker.gate.close()
    await asyncio.sleep(60 * minutes)
    return _attempts(fleet, begun, minutes)


async def slammed(fleet: Fleet, minutes: float) -> dict[str, object]:
    """Every line is taken and closed at once."""
    begun = time.monotonic()
    for worker in fleet.workers:
        worker.gate.mode = "slam"
        await worker.gate.close()
        await worker.gate.open()
    await asyncio.sleep(60 * minutes)
    return _attempts(fleet, begun, minutes)


async def busy(fleet: Fleet, busy_s: float) -> dict[str, object]:
    """The coordinator answers 503; then it is well again."""
    fleet.busy_until = time.monotonic() + busy_s
    await asyncio.sleep(busy_s)
    return _returns(await _polled_again(fleet, fleet.busy_until))


async def swallowed(fleet: Fleet) -> dict[str, object]:
    """The open lines of all workers are dead, and nobody tells them."""
    begun = time.monotonic()
    for worker in fleet.workers:
        worker.gate.swallow()
    return _returns(await _polled_again(fleet, begun))


async def _polled_again(fleet: Fleet, since: float) -> list[float]:
    def done() -> bool:
        return all(worker.polls and worker.polls[-1] > since for worker in fleet.workers)

    await _until(done, 4 * RETURN_S)
    return [next(when for when in worker.polls if when > since) - since for worker in fleet.workers]


def _attempts(fleet: Fleet, begun: float, minutes: float) -> dict[str, object]:
    counts = [sum(when > begun for when in worker.failures) for worker in fleet.workers]
    allowed = ATTEMPTS_IN_TEN_MINUTES - _AT_FIRST + _AT_FIRST * minutes / 10
    differ = len({round(worker.failures[-1] - begun, 1) for worker in fleet.workers if worker.failures}) > 1
    return {"attempts_most": max(counts), "attempts_least": min(counts), "ok": 0 < max(counts) <= allowed and differ}


def _returns(seconds: list[float]) -> dict[str, object]:
    spread = max(seconds) - min(seconds)
    return {"return_s_most": round(max(seconds), 1), "spread_s": round(spread, 1), "ok": max(seconds) <= RETURN_S}


async def _until(condition: object, longest_s: float) -> None:
    assert callable(condition)
    async with asyncio.timeout(longest_s):
        while not condition():  # noqa: ASYNC110 - any condition, not only an event
            await asyncio.sleep(0.05)


async def measure(minutes: float, workers: int) -> dict[str, dict[str, object]]:
    """Run the four troubles at the same time and return the figures of each."""
    with tempfile.TemporaryDirectory(prefix="stoker-link-") as folder:
        async with AsyncExitStack() as stack:
            fleets = {name: Fleet(Path(folder), workers) for name in ("refused", "slammed", "busy", "swallowed")}
            for fleet in fleets.values():
                await fleet.open(stack)
            await asyncio.sleep(_SETTLE_S)  # the waits begin anew after so much health
            figures = await asyncio.gather(
                refused(fleets["refused"], minutes),
                slammed(fleets["slammed"], minutes),
                busy(fleets["busy"], min(BUSY_S, 60 * minutes)),
                swallowed(fleets["swallowed"]),
            )
    return dict(zip(fleets, figures, strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0, help="how long nobody listens")
    options.add_argument("--workers", type=int, default=WORKERS, help="workers for each trouble")
    options.add_argument("--json", action="store_true", help="print one JSON object")
    asked = options.parse_args(argv)
    figures = asyncio.run(measure(asked.minutes, asked.workers))
    if asked.json:
        print(json.dumps({"bench": "link", **figures}))
    else:
        for name, found in figures.items():
            told = ", ".join(f"{key} {value}" for key, value in found.items() if key != "ok")
            print(f"{name:10} {told}: {'as promised' if found['ok'] else 'MISSED'}")
    return 0 if all(found["ok"] for found in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
