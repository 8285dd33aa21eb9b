"""The end of the session: nothing is asked, and nothing is started again by the session's memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from PySide6.QtCore import QObject
from PySide6.QtGui import QSessionManager
from PySide6.QtWidgets import QApplication

from app.desktop.application import Desktop
from app.desktop.single_instance import SingleInstance
from worker_core.machine.paths import find_paths


@pytest.fixture
def desktop(owner: QObject, qapp: QApplication, tmp_path: Path) -> Iterator[Desktop]:
    paths = find_paths(str(tmp_path))
    for folder in (paths.data, paths.config, paths.logs):
        folder.mkdir(parents=True)
    made = Desktop(qapp, paths, SingleInstance(owner, paths, wants_window=False), background=True)
    yield made
    made.close()
    made.deleteLater()


class Session:
    """What the desktop tells a session manager."""

    def __init__(self) -> None:
        self.hints: list[QSessionManager.RestartHint] = []

    def setRestartHint(self, hint: QSessionManager.RestartHint) -> None:  # noqa: N802
        self.hints.append(hint)


def test_a_restored_session_starts_no_second_desktop(desktop: Desktop) -> None:
    """A window that pops up after log-in because the session remembered it (Vorta 1375)."""
    session = Session()
    desktop._on_save_state(cast("QSessionManager", session))
    assert session.hints == [QSessionManager.RestartHint.RestartNever]


def test_windows_that_the_end_of_the_session_closes_ask_nothing(desktop: Desktop, qapp: QApplication) -> None:
    desktop.front.show_status()
    desktop._on_session_end(cast("QSessionManager", Session()))
    desktop.front.status_closed.emit()
    titles = [window.windowTitle() for window in qapp.topLevelWidgets() if window.isVisible()]
    assert "Keep Stoker running?" not in titles
