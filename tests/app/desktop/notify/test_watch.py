"""Waking, snoozing and a desktop without notifications: who is told, and when."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QSystemTrayIcon

from app.desktop.control.store import WorkerStore
from app.desktop.notify.watch import NoticeWatch
from app.desktop.platform.autostart_duty import AutostartDuty
from app.desktop.prefs import PrefsFile
from app.desktop.presenter.situation import Link
from tests.desktop.scripted_core import paired
from worker_core.control.messages import Snapshot
from worker_core.machine import atomic_files
from worker_core.machine.paths import find_paths
from worker_core.wire.status import EndedShown, WorkerStatus

Wait = Callable[..., None]
START = 1_800_000_000.0


class Stage:
    """A watch over a worker, with a clock that a test sets."""

    def __init__(self, owner: QObject, folder: Path) -> None:
        self.now = START
        self.store = WorkerStore(owner)
        self.store.set_link(Link.CONNECTED, "")
        self.prefs = PrefsFile(folder / "desktop.json", owner)
        self.icon = QSystemTrayIcon(owner)
        self.shown: list[str] = []
        setattr(self.icon, "showMessage", self.note)  # noqa: B010
        self.folder = folder
        self.owner = owner
        self.commands: list[str] = []
        self.watch = self.begin()

    def begin(self) -> NoticeWatch:
        made = NoticeWatch(self.owner, self.store, self.prefs, self.folder / "told.json", wall=self.wall)
        made.show_through(self.icon)
        made.commanded.connect(self.commands.append)
        return made

    def note(self, headline: str, *rest: object) -> None:
        self.shown.append(headline)

    def wall(self) -> float:
        return self.now

    def see(self, status: WorkerStatus, after_s: float = 0.0) -> None:
        self.now += after_s
        self.store.take_snapshot(Snapshot(rev=1, status=status))


@pytest.fixture
def stage(owner: QObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A desktop without a session bus: everything goes to the tray icon."""
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    made = Stage(owner, tmp_path)
    yield made
    made.watch.close()


TROUBLE = paired("problem", reasons=("clock-wrong", "disk-full"))


def test_after_a_sleep_nothing_is_told_that_is_well_again_in_half_a_minute(stage: Stage) -> None:
    """An error right after waking, because the network is not there yet (Vorta 1815)."""
    stage.see(paired(), 60)
    stage.see(TROUBLE, 9 * 3600)
    stage.see(TROUBLE, 20)
    stage.see(paired(), 5)
    stage.see(paired(), 60)
    assert stage.shown == []
    stage.see(TROUBLE, 60)
    assert stage.shown == ["The disk is full"]


def test_what_is_still_wrong_when_the_grace_is_over_is_told(stage: Stage) -> None:
    stage.see(paired(), 60)
    stage.see(TROUBLE, 9 * 3600)
    stage.see(TROUBLE, 31)
    assert sorted(stage.shown) == ["Stoker needs your attention", "The disk is full"]


def test_a_new_start_tells_nothing_again_even_where_the_memory_of_it_cannot_be_read(stage: Stage) -> None:
    stage.see(TROUBLE, 60)
    stage.watch.close()
    stage.watch = stage.begin()
    stage.see(TROUBLE, 60)
    assert stage.shown.count("The disk is full") == 1
    stage.watch.close()
    (stage.folder / "told.json").write_text("{garbage")
    ended = EndedShown(attempt_id="a", job_id="j", name="old", attempt=1, outcome="failed", at=stage.now - 100)
    stage.watch = stage.begin()
    stage.see(paired(ended=(ended,)), 60)
    assert "old failed" not in stage.shown


def test_a_snooze_is_kept_and_a_clock_that_is_set_back_makes_it_no_longer(stage: Stage) -> None:
    stage.see(paired(), 60)
    stage.prefs.change(snoozed_until=stage.now + 3600)
    stage.see(TROUBLE, 600)
    assert stage.shown == []
    stage.see(TROUBLE, 3600)
    stage.see(TROUBLE, 100)
    assert "The disk is full" in stage.shown


def test_a_click_on_a_message_opens_what_it_is_about(stage: Stage) -> None:
    stage.see(TROUBLE, 60)
    stage.icon.messageClicked.emit()
    assert stage.commands == ["status"]


def test_switching_autostart_on_and_off_reaches_the_system_and_a_failure_is_told(
    owner: QObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("STOKER_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    entry = tmp_path / "xdg" / "autostart" / "stoker.desktop"
    prefs = PrefsFile(tmp_path / "desktop.json", owner)
    duty = AutostartDuty(owner, find_paths(), prefs)
    told: list[tuple[str, str]] = []
    duty.failed.connect(lambda *words: told.append(words))
    prefs.change(autostart=True)
    assert "app --background" in entry.read_text()
    entry.write_text(f"{entry.read_text()}Hidden=true\n")
    prefs.change(autostart=False)
    assert not entry.exists()
    monkeypatch.setattr(atomic_files.os, "fsync", _no_space)
    prefs.change(autostart=True)
    assert [headline for headline, _ in told] == ["Starting with the computer could not be changed"]
    assert "No space left" in told[0][1]


def _no_space(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
