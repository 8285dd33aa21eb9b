"""What the tray costs while nothing happens: memory, CPU and wake-ups, with its core idle beside it.

    python3 dev.py bench tray [--json] [--seconds 40]

Promise: at most 65 MiB of memory without the metrics window and at most 0.1 % of one core. It brings an X server
and a private session bus with a tray host (Xvfb, dbus-daemon, and the system's Python with dbus and gi).
"""

import argparse
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil

from bench._figures import tell
from tests.desktop.kit import Bus, DesktopProcess, Display, TrayHost
from tests.desktop.scripted_core import ScriptedCore, paired, training

SETTLE_S = 5.0
RSS_TARGET_MIB = 65.0
CPU_TARGET_PCT = 0.1


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    return tell(measure(options.seconds), as_json=options.json)


def measure(seconds: float) -> dict[str, Any]:
    """Measure an idle tray, then the same tray while a job reports once a second."""
    with ExitStack() as parts:
        home = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="stoker-bench-")))
        display, bus = parts.enter_context(closing(Display())), parts.enter_context(closing(Bus()))
        host = parts.enter_context(closing(TrayHost(bus)))
        core = parts.enter_context(closing(ScriptedCore(home, paired())))
        desktop = parts.enter_context(closing(DesktopProcess(home, display, bus, "--background")))
        started = time.monotonic()
        host.wait_for_headline("Available")
        ready_s = time.monotonic() - started
        time.sleep(SETTLE_S)
        idle = _watch(desktop.process.pid, seconds)
        busy = _watch_training(desktop.process.pid, core, seconds / 4)
    within = idle["rss_mib"] <= RSS_TARGET_MIB and idle["cpu_pct"] <= CPU_TARGET_PCT
    return {
        "ready_s": round(ready_s, 2),
        **{f"idle_{name}": value for name, value in idle.items()},
        **{f"training_{name}": value for name, value in busy.items()},
        "within_targets": within,
    }


def _watch(pid: int, seconds: float) -> dict[str, float]:
    process = psutil.Process(pid)
    cpu, switches = _spent(process)
    time.sleep(seconds)
    later_cpu, later_switches = _spent(process)
    memory = process.memory_full_info()
    return {
        "rss_mib": round(memory.rss / 2**20, 1),
        "uss_mib": round(memory.uss / 2**20, 1),
        "cpu_pct": round(100 * (later_cpu - cpu) / seconds, 3),
        "wakeups_per_s": round((later_switches - switches) / seconds, 2),
    }


def _watch_training(pid: int, core: ScriptedCore, seconds: float) -> dict[str, float]:
    process = psutil.Process(pid)
    cpu, _ = _spent(process)
    for turn in range(max(1, round(seconds))):
        core.set_status(training(turn / 100))
        time.sleep(1)
    return {"cpu_pct": round(100 * (_spent(process)[0] - cpu) / max(1, round(seconds)), 3)}


def _spent(process: psutil.Process) -> tuple[float, int]:
    times = process.cpu_times()
    return times.user + times.system, process.num_ctx_switches().voluntary
