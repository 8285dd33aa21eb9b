"""Windows are tested in this process, without a display, against the scripted core over a real socket."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.append(str(Path(__file__).parents[3]))

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.desktop.windows import theme
from tests.desktop.scripted_core import ScriptedCore
from tests.desktop.wiring import Wired


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


@pytest.fixture
def link(owner: QObject, core: ScriptedCore, wait: Callable[..., None]) -> Iterator[Wired]:
    made = Wired(owner, core.paths)
    made.supervisor.start()
    wait(lambda: made.store.situation.live is not None)
    yield made
    made.supervisor.close()


@pytest.fixture
def wait(qtbot: QtBot) -> Callable[..., None]:
    """Run the event loop until something is so."""

    def until(look: Callable[[], object], timeout_ms: int = 8000) -> None:
        qtbot.waitUntil(lambda: bool(look()), timeout=timeout_ms)

    return until
