"""Fixtures of the link: a scripted coordinator over real HTTP, a real journal, a client that speaks to it."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from delivery_scene import Scene
from scripted_coordinator import ScriptedCoordinator

from worker_core.journal.journal import Journal
from worker_core.link.address import Address
from worker_core.link.client import CoordinatorClient
from worker_core.link.exchange import Exchanger
from worker_core.link.identity import WorkerKey
from worker_core.link.signatures import PinnedCoordinator
from worker_core.machine.clocks import SystemClock


@pytest.fixture
async def coordinator() -> AsyncIterator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator()
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    opened = Journal.open(tmp_path / "state.db", boot_id="boot-1")
    yield opened
    await opened.close()


@pytest.fixture
async def client(coordinator: ScriptedCoordinator) -> AsyncIterator[CoordinatorClient]:
    key = WorkerKey.generate()
    exchanger = Exchanger(Address.parse(coordinator.url), key, SystemClock())
    coordinator.thumbprint = key.thumbprint
    exchanger.pinned = PinnedCoordinator(
        worker_id=coordinator.worker_id, thumbprint=key.thumbprint, jwks=coordinator.jwks
    )
    exchanger.token = "token-0"
    yield CoordinatorClient(exchanger)
    await exchanger.close()


@pytest.fixture
async def scene(
    journal: Journal, client: CoordinatorClient, coordinator: ScriptedCoordinator, tmp_path: Path
) -> AsyncIterator[Scene]:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    made = Scene(journal, client, coordinator, blobs)
    await made.add_attempt()
    yield made
    await made.delivery.stop()
