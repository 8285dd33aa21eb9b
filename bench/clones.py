"""Whether a copied credential is always caught and an honest worker never accused, in simulated schedules.

Targets: no false alarm, every copy of a live disk caught; as a check of the simulation itself, a worker that names only
its newest start must raise false alarms.
"""

import statistics
from collections.abc import Sequence

from bench._copied_workers import caught_after_s, false_alarm
from bench._stack import parser, report


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--schedules", type=int, default=4000, help="schedules of each kind")
    asked = options.parse_args(argv)
    seeds = range(asked.schedules)
    accused = sum(bool(false_alarm(seed)) for seed in seeds)
    control = sum(bool(false_alarm(seed, all_ids=False)) for seed in seeds)
    times = [caught_after_s(seed) for seed in seeds]
    caught = sorted(time for time in times if time is not None)
    figures: dict[str, object] = {
        "bench": "clones",
        "schedules": asked.schedules,
        "false_alarms": accused,
        "false_alarms_naming_only_the_newest": control,
        "copies_caught": len(caught),
        "median_min": round(statistics.median(caught) / 60, 1) if caught else None,
        "p99_min": round(caught[int(len(caught) * 0.99)] / 60, 1) if caught else None,
    }
    report(figures, json=asked.json)
    return 0 if accused == 0 and len(caught) == asked.schedules and control > 0 else 1
