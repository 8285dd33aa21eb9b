"""Windows are tested in this process, without a display, against the scripted core over a real socket."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).parents[2] / "desktop"))

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from scripted_core import ScriptedCore

from app.desktop.control.client import ControlClient
from app.desktop.control.store import WorkerStore
from app.desktop.control.supervisor import Supervisor
from app.desktop.windows import theme


@pytest.fixture
def core(tmp_path: Path) -> Iterator[ScriptedCore]:
    made = ScriptedCore(tmp_path)
    yield made
    made.close()


@pytest.fixture
def owner(qapp: QApplication) -> Iterator[QObject]:
    """Keeps what a test makes; nothing outlives the test."""
    theme.apply(qapp, "light")
    made = QObject()
    yield made
    made.deleteLater()
    qapp.sendPostedEvents()
    qapp.processEvents()


class Link:
    """Client, store and supervisor as the desktop wires them."""

    def __init__(self, owner: QObject, core: ScriptedCore) -> None:
        self.client = ControlClient(owner)
        self.store = WorkerStore(owner)
        self.supervisor = Supervisor(owner, core.paths, self.client)
        self.supervisor.link_changed.connect(self.store.set_link)
        self.client.snapshot_arrived.connect(self.store.take_snapshot)


@pytest.fixture
def link(owner: QObject, core: ScriptedCore, wait: Callable[..., None]) -> Iterator[Link]:
    made = Link(owner, core)
    made.supervisor.start()
    wait(lambda: made.store.situation.live is not None)
    yield made
    made.supervisor.close()


@pytest.fixture
def wait(qtbot: object) -> Callable[..., None]:
    """Run the event loop until something is so."""

    def until(look: Callable[[], object], timeout_ms: int = 8000) -> None:
        qtbot.waitUntil(lambda: bool(look()), timeout=timeout_ms)  # type: ignore[attr-defined]

    return until
