"""What a year of use leaves in the tray: 1,000 openings of its windows beside a job that reports, and a hung core.

    python3 dev.py bench tray_use [--json] [--openings 1000]

Promise: memory grows by less than 3 MiB; the menu opens in less than 200 ms while the core does not answer.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from bench._figures import tell
from tests.desktop.kit import Bus, DesktopProcess, Display, TrayHost, end
from tests.desktop.scripted_core import ScriptedCore, paired, training

GROWTH_MIB = 3.0
MENU_MS = 200.0
MENUS = 30
PER_OPENING_S = 2.0
"""Longest mean time of an opening before the run counts as hung."""


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--openings", type=int, default=1000)
    options = parser.parse_args()
    return tell(measure(options.openings), as_json=options.json)


def measure(openings: int) -> dict[str, Any]:
    """Open and close, then ask for the menu of a tray whose core hangs."""
    with ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="stoker-bench-")))
        display, bus = parts.enter_context(closing(Display())), parts.enter_context(closing(Bus()))
        host = parts.enter_context(closing(TrayHost(bus)))
        figures = _used(folder / "used", display, bus, openings)
        menu = _menu_of_a_hung_core(folder / "hung", display, bus, host)
    within = figures["growth_mib"] < GROWTH_MIB and menu["menu_ms_max"] < MENU_MS
    return figures | menu | {"within_targets": within}


def _used(home: Path, display: Display, bus: Bus, openings: int) -> dict[str, Any]:
    home.mkdir()
    wanted = {"DISPLAY": display.name, "DBUS_SESSION_BUS_ADDRESS": bus.address, "STOKER_HOME": str(home)}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("QT_", "WAYLAND_"))}
    with closing(ScriptedCore(home, training())) as core:
        command = [sys.executable, "-m", "bench._tray_use", str(openings)]
        process = subprocess.Popen(command, env=environment | wanted, stdout=subprocess.PIPE, text=True)
        give_up = time.monotonic() + 60 + openings * PER_OPENING_S
        try:
            turn = 0
            while process.poll() is None and time.monotonic() < give_up:
                turn += 1
                core.set_status(training((turn % 1000) / 1000))
                core.emit_metric(450_000 + turn, {"rollout/ep_rew_mean": turn % 200, "train/loss": 0.1})
                time.sleep(0.1)
            if process.poll() != 0 or process.stdout is None:
                raise RuntimeError(f"the desktop in use did not come to its end (exit code {process.poll()})")
            return json.loads(process.stdout.read().splitlines()[-1])
        finally:
            end(process)


def _menu_of_a_hung_core(home: Path, display: Display, bus: Bus, host: TrayHost) -> dict[str, float]:
    home.mkdir()
    with (
        closing(ScriptedCore(home, paired(), "silent")),
        closing(DesktopProcess(home, display, bus, "--background")) as desktop,
    ):
        begun = time.monotonic()
        host.item()
        icon_s = time.monotonic() - begun
        host.wait_for_headline("Not responding")
        took: list[float] = []
        for _ in range(MENUS):
            begun = time.monotonic()
            host.ask("about_to_show")
            host.ask("menu")
            took.append(1000 * (time.monotonic() - begun))
            time.sleep(0.1)
        desktop.process.terminate()
        desktop.wait()
    return {
        "start_to_icon_s": round(icon_s, 2),
        "menu_ms_p50": round(statistics.median(took), 1),
        "menu_ms_max": round(max(took), 1),
    }
