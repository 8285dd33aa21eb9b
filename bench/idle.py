"""What a paired, idle worker costs: resident memory and processor share of the core (and of the coordinator beside it).

Targets for the core: at most 60 MiB and 0.1 % of one processor; the exit code is 1 when one was missed.
"""

import time
from collections.abc import Sequence

import psutil

from bench._stack import paired_worker, parser, report, report_against

SETTLE_S = 10.0
CORE_TARGETS = {"rss_mib": 60.0, "cpu_pct": 0.1}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--seconds", type=float, default=60.0, help="how long to watch")
    asked = options.parse_args(argv)
    with paired_worker() as bench:
        assert bench.demo.coordinator is not None
        watched = {"core": bench.core.pid, "coordinator": bench.demo.coordinator.pid}
        time.sleep(SETTLE_S)
        processes = {name: psutil.Process(pid) for name, pid in watched.items()}
        before = {name: _cpu_s(process) for name, process in processes.items()}
        began = time.monotonic()
        time.sleep(asked.seconds)
        elapsed = time.monotonic() - began
        figures = {name: _figures(name, process, before[name], elapsed) for name, process in processes.items()}
    within = report_against(CORE_TARGETS, figures["core"], json=asked.json)
    report(figures["coordinator"], json=asked.json)
    return 0 if within else 1


def _figures(name: str, process: psutil.Process, before_s: float, elapsed_s: float) -> dict[str, object]:
    memory = process.memory_full_info()
    return {
        "bench": f"idle-{name}",
        "rss_mib": round(memory.rss / 2**20, 1),
        "uss_mib": round(memory.uss / 2**20, 1),
        "cpu_pct": round(100 * (_cpu_s(process) - before_s) / elapsed_s, 3),
        "seconds": round(elapsed_s, 1),
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
