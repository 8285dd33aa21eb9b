"""A desktop in use: opens and closes its windows again and again while a job reports. Started by ``bench tray_use``.

Prints one JSON line: memory before and after, and what the last openings cost.
"""

import json
import statistics
import sys
import time

import app.desktop.lean  # noqa: F401  # pyright: ignore[reportUnusedImport]

# isort: split
import psutil
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from app.desktop.application import Desktop
from app.desktop.identity import claim_identity
from app.desktop.single_instance import SingleInstance
from worker_core.machine.paths import find_paths

WARM_UP = 60
SETTLE_S = 2.0
WINDOWS = (*("status", "metrics") * 10, "pair")
"""What is opened in turn. A worker is paired seldom."""


def main() -> int:
    """Use the desktop of STOKER_HOME as often as the first argument says."""
    openings = int(sys.argv[1])
    paths = find_paths()
    for folder in (paths.data, paths.config, paths.logs):
        folder.mkdir(parents=True, exist_ok=True)
    claim_identity()
    app = QApplication(["stoker"])
    app.setQuitOnLastWindowClosed(False)
    desktop = Desktop(app, paths, SingleInstance(app, paths, wants_window=False), background=True)
    desktop.start()
    _rest(app, SETTLE_S)
    _use(app, desktop, WARM_UP)
    before = _memory(app)
    costs = _use(app, desktop, openings)
    after = _memory(app)
    desktop.close()
    figures = {
        "openings": openings,
        "rss_before_mib": before,
        "rss_after_mib": after,
        "growth_mib": round(after - before, 2),
        "opening_ms_p50": round(1000 * statistics.median(costs), 1),
        "opening_ms_max": round(1000 * max(costs), 1),
    }
    print(json.dumps(figures), flush=True)
    return 0


def _use(app: QApplication, desktop: Desktop, times: int) -> list[float]:
    costs: list[float] = []
    for turn in range(times):
        begun = time.perf_counter()
        desktop.commands.give(WINDOWS[turn % len(WINDOWS)])
        app.processEvents()
        costs.append(time.perf_counter() - begun)
        desktop.binder.about_to_show.emit()
        _rest(app, 0.02)
        for window in app.topLevelWidgets():
            if window.isVisible() and window.isWindow():
                window.close()
        app.processEvents()
        app.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    return costs


def _rest(app: QApplication, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        app.processEvents()
        time.sleep(0.005)


def _memory(app: QApplication) -> float:
    _rest(app, SETTLE_S)
    return round(psutil.Process().memory_info().rss / 2**20, 1)


if __name__ == "__main__":
    sys.exit(main())
