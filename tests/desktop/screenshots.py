"""Saves pictures of the running desktop: the tray menu and the live-metrics window, or with ``--all`` every window.

    python tests/desktop/screenshots.py --out docs/images [--home DIR] [--theme light|dark] [--all]

With ``--home`` the core of that home is shown, as it is; without it a scripted one in the middle of a session.
It brings its own X server.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.desktop.kit import Display
from tests.desktop.scripted_core import ScriptedCore, paired, training, unpaired, waiting
from worker_core.control.messages import ErrorBody, PairOutcome
from worker_core.machine.paths import find_paths
from worker_core.wire.owner_rules import Hours, OwnerRules
from worker_core.wire.status import GpuShown

SETTLE_S = 0.7
SCREEN = "1400x1000x24"


def main() -> int:
    options = _parse()
    display = Display(SCREEN)
    os.environ |= {"DISPLAY": display.name, "QT_QPA_PLATFORM": "xcb", "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    try:
        with tempfile.TemporaryDirectory(prefix="stoker-shots-") as scratch:
            _take(options, Path(scratch))
    finally:
        display.close()
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--all", action="store_true", help="every window in every state (scripted core)")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds to follow a real core before the pictures")
    return parser.parse_args()


def _take(options: argparse.Namespace, scratch: Path) -> None:
    from PySide6.QtWidgets import QApplication

    from app.desktop.application import Desktop
    from app.desktop.identity import claim_identity
    from app.desktop.single_instance import SingleInstance

    home = options.home or scratch
    core = None if options.home else ScriptedCore(scratch, training())
    own = find_paths(str(scratch / "desktop"))
    for folder in (own.data, own.config, own.logs, options.out):
        folder.mkdir(parents=True, exist_ok=True)
    (own.config / "desktop.json").write_text(f'{{"scheme": "{options.theme}"}}')
    claim_identity()
    app = QApplication(["stoker"])
    app.setQuitOnLastWindowClosed(False)
    # The desktop's own files go to a scratch folder, so that a real home is only looked at.
    paths = find_paths(str(home))
    shown = type(paths)(config=own.config, data=paths.data, cache=paths.cache, logs=own.logs)
    desktop = Desktop(app, shown, SingleInstance(app, own, wants_window=False), background=True)
    desktop.start()
    studio = Studio(app, desktop, options.out, options.theme)
    studio.wait(lambda: desktop.store.situation.live is not None)
    if core is not None:
        core.set_status(training(gpus=(_gpu(),)))
        _play(core, studio)
    if options.all:
        assert core is not None
        studio.take_all(core)
    else:
        studio.settle(options.settle)
        studio.take_menu()
        studio.take_metrics()
    desktop.close()
    if core is not None:
        core.close()


def _gpu() -> GpuShown:
    return GpuShown(uuid="GPU-1", name="RTX 4090", busy_pct=71.0, temperature_c=61.0)


def _play(core: ScriptedCore, studio: "Studio") -> None:
    """Let a few load values arrive."""
    for turn in range(12):
        gpu = GpuShown(uuid="GPU-1", name="RTX 4090", busy_pct=64.0 + 9 * (turn % 3), temperature_c=61.0)
        load = core.status.load.__class__(device="cuda", cpu_pct=38.0 + 7 * (turn % 4))
        core.set_status(training(gpus=(gpu,), load=load))
        studio.settle(0.12)


class Studio:
    """Waits until something is there, then takes its picture."""

    def __init__(self, app: object, desktop: object, out: Path, theme: str) -> None:
        from PySide6.QtWidgets import QApplication

        from app.desktop.application import Desktop

        assert isinstance(app, QApplication)
        assert isinstance(desktop, Desktop)
        self.app = app
        self.desktop = desktop
        self.out = out
        self.theme = theme

    def settle(self, seconds: float = SETTLE_S) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.app.processEvents()
            time.sleep(0.01)

    def wait(self, look: Callable[[], bool], timeout_s: float = 20.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not look():
            if time.monotonic() > deadline:
                raise SystemExit("the desktop did not reach the state to be pictured")
            self.settle(0.05)

    def shoot(self, name: str, widget: object) -> None:
        from PySide6.QtWidgets import QWidget

        assert isinstance(widget, QWidget)
        self.settle()
        widget.grab().save(str(self.out / name))

    def take_menu(self, name: str = "tray-menu.png") -> None:
        """The menu under its icon on a strip of panel, as a tray host shows it."""
        from PySide6.QtCore import QPoint
        from PySide6.QtGui import QPainter, QPixmap

        from app.desktop.presenter.status import show
        from app.desktop.tray.icons import draw
        from app.desktop.windows.theme import colours

        assert self.desktop.front, "the front brings the colours"
        menu = self.desktop.binder.menu
        menu.popup(QPoint(20, 60))
        self.settle()
        picture = menu.grab()
        menu.close()
        ground = "dark" if self.theme == "dark" else "light"
        whole = QPixmap(picture.width() + 32, picture.height() + 60)
        whole.fill(colours().ground)
        painter = QPainter(whole)
        painter.fillRect(0, 0, whole.width(), 32, colours().line)
        painter.drawPixmap(24, 4, draw(show(self.desktop.store.situation).icon, ground, 24))
        painter.drawPixmap(16, 44, picture)
        painter.end()
        whole.save(str(self.out / name))

    def take_metrics(self, name: str = "metrics-window.png") -> None:
        self.desktop.commands.give("metrics")
        window = self.desktop.front.metrics_window
        assert window is not None
        self.settle(1.5)
        self.shoot(name, window)

    def take_all(self, core: ScriptedCore) -> None:
        suffix = f"-{self.theme}.png"
        self.take_menu(f"menu{suffix}")
        self.take_metrics(f"metrics{suffix}")
        core.history_has_nan = True
        core.emit_metric(451_000, {"train/loss": "NaN"})
        self.take_metrics(f"metrics-nan{suffix}")
        self.desktop.commands.give("status")
        for name, status in {
            "status-training": training(gpus=(_gpu(),)),
            "status-available": paired(),
            "status-unpaired": unpaired(),
            "status-problem": paired("problem", reasons=("disk-full",)),
        }.items():
            core.set_status(status)
            self.shoot(name + suffix, self.desktop.front.status_window)
        core.rules = OwnerRules(hours=(Hours(begin="20:00", end="08:00"),), idle_minutes=10, programs=("blender",))
        self.desktop.commands.give("settings")
        self.shoot(f"settings{suffix}", self.desktop.front.settings_window)
        core.set_status(training())
        self.settle()
        self.desktop.commands.give("quit")
        self.settle()
        question = self.app.activeWindow() or self.app.topLevelWidgets()[-1]
        for widget in self.app.topLevelWidgets():
            if widget.isVisible() and widget.windowTitle() == "A job is training":
                question = widget
        self.shoot(f"quit{suffix}", question)
        question.close()
        self._take_pairing(core, suffix)

    def _take_pairing(self, core: ScriptedCore, suffix: str) -> None:
        from PySide6.QtWidgets import QLineEdit, QPushButton, QRadioButton

        core.set_status(unpaired())
        self.settle()
        self.desktop.commands.give("pair")
        window = self.desktop.front.pairing_window
        assert window is not None
        self.shoot(f"pairing-form{suffix}", window)
        edits = {edit.accessibleName(): edit for edit in window.findChildren(QLineEdit)}
        edits["Coordinator"].setText("train.example.org")
        submit = next(button for button in window.findChildren(QPushButton) if "Get a code" in button.text())
        submit.click()
        self.shoot(f"pairing-fault{suffix}", window)
        edits["E-mail of your account"].setText("ada@example.org")
        core.errors["pair"] = ErrorBody(
            code="unreachable",
            text="https://train.example.org answered, but not as a Stoker coordinator. Check the address.",
        )
        submit.click()
        self.shoot(f"pairing-unreachable{suffix}", window)
        core.errors.clear()
        submit.click()
        self.settle()
        core.set_status(waiting(expires_in_s=560))
        self.shoot(f"pairing-code{suffix}", window)
        core.outcome_is = PairOutcome(state="expired")
        core.outcome.set()
        core.set_status(unpaired())
        self.shoot(f"pairing-expired{suffix}", window)
        here = next(choice for choice in window.findChildren(QRadioButton) if "This computer" in choice.text())
        next(button for button in window.findChildren(QPushButton) if "details" in button.text()).click()
        here.click()
        self.shoot(f"pairing-here{suffix}", window)


if __name__ == "__main__":
    sys.exit(main())
