"""The coordinator is away while a job says 10,000 points, a third of them NaN or infinite: each arrives once, in order.

Real processes: the coordinator is ended and started again on its port, the core and its job run on. What the
coordinator holds afterwards is read through its API, as JSON in which a bare NaN is an error. Target: no point
missing, twice, changed or out of its order, else the exit code is 1.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from app.cli.demo import EMAIL
from app.cli.local_stack import LocalCoordinator, LocalCore, OwnProcess
from bench._outage_job import LINE_EVERY, value_of
from bench._stack import Bench, BenchFailed, cartpole, paired_worker, parser, report_against
from worker_core.machine.paths import find_paths
from worker_core.machine.spawn import clean_environment
from worker_core.wire.vocabulary import JOB_END_STATES

TARGETS = {"missing": 0.0, "twice": 0.0, "changed": 0.0, "out_of_order": 0.0, "lines_missing": 0.0}
_AWAY_SHARE = 0.9
"""Of the job's points, so many are said while the coordinator is away."""
_GUARD_S = 300.0


class _Core(LocalCore):
    """A core in the home of a paired worker, whose jobs say points."""

    def __init__(self, home: Path, points: int, seconds: float) -> None:
        self.paths = find_paths(str(home))
        script = str(Path(__file__).with_name("_outage_core.py"))
        environment = clean_environment({"STOKER_HOME": str(home), "STOKER_CREDENTIAL_STORE": "file"}, own=True)
        environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        command = [sys.executable, script, str(home), str(points), str(seconds)]
        OwnProcess.__init__(self, "worker", command, home / "core.log", environment)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--seconds", type=float, default=600.0, help="how long the coordinator is away")
    options.add_argument("--points", type=int, default=10_000, help="metric points the job says")
    asked = options.parse_args(argv)
    with paired_worker() as bench:
        figures = _suffer(bench, asked.points, asked.seconds)
    return 0 if report_against(TARGETS, {"bench": "outage", **figures}, json=asked.json) else 1


def _suffer(bench: Bench, points: int, seconds: float) -> dict[str, object]:
    bench.core.end()
    core = bench.demo.core = bench.core = _Core(bench.demo.home / "worker", points, seconds / _AWAY_SHARE)
    core.wait_ready()
    bench.wait_idle()
    job_id = bench.submit(cartpole("outage", 1000))
    bench.wait_job(job_id, lambda job: job.step > 0)
    coordinator = bench.demo.coordinator
    assert coordinator is not None
    coordinator.end()
    gone = time.monotonic()
    seen = _watch(core, gone + seconds)
    waiting = core.status()
    bench.demo.coordinator = LocalCoordinator(bench.demo.home, port=coordinator.port)
    back = time.monotonic()
    _await_end(bench, job_id)
    took = time.monotonic() - back
    found = _judge(bench, job_id, points)
    return {
        "away_s": round(back - gone, 1),
        "points": points,
        **found,
        "waiting_events": waiting.outbox.events if waiting is not None else -1,
        "states_meanwhile": sorted(seen),
        "catch_up_s": round(took, 1),
    }


def _watch(core: LocalCore, until: float) -> set[str]:
    """Return the states, with their reasons, that the worker showed until then."""
    seen: set[str] = set()
    while time.monotonic() < until:
        status = core.status()
        if status is None:
            raise BenchFailed("the core did not answer during the outage")
        seen.add(" ".join((status.state, *status.reasons)))
        time.sleep(0.5)
    return seen


def _await_end(bench: Bench, job_id: str) -> None:
    give_up = time.monotonic() + _GUARD_S
    while (job := bench.client.job(job_id)).state not in JOB_END_STATES:
        if time.monotonic() > give_up:
            raise BenchFailed(f"the job is {job.state} at step {job.step:,} {_GUARD_S:.0f} s after the outage")
        time.sleep(0.2)
    if job.state != "succeeded":
        raise BenchFailed(f"the job ended as {job.state}: {job.reason}")


def _judge(bench: Bench, job_id: str, points: int) -> dict[str, object]:
    """Compare what the coordinator holds with what the job said."""
    attempt = bench.client.job(job_id).attempts[-1].id
    events = _events(bench, attempt)
    said = [event for event in events if event["t"] == "m"]
    steps = [event["step"] for event in said]
    counted = Counter(steps)
    return {
        "arrived": len(steps),
        "not_finite": sum(isinstance(event["values"]["loss"], str) for event in said),
        "missing": sum(step not in counted for step in range(1, points + 1)),
        "twice": sum(count - 1 for count in counted.values()),
        "changed": sum(event["values"]["loss"] != value_of(event["step"]) for event in said),
        "out_of_order": sum(one > other for one, other in pairwise(steps)),
        "lines_missing": points // LINE_EVERY
        - sum(event["t"] == "l" and event["stream"] == "stdout" for event in events),
    }


def _events(bench: Bench, attempt_id: str) -> list[dict[str, Any]]:
    """Return every event of an attempt, read as strict JSON."""
    coordinator = bench.demo.coordinator
    assert coordinator is not None
    headers = {"Authorization": f"Bearer {coordinator.add_token(EMAIL)}"}
    events: list[dict[str, Any]] = []
    after = -1
    with httpx.Client(base_url=coordinator.url, headers=headers, timeout=60.0, trust_env=False) as http:
        while True:
            answer = http.get(f"/v1/attempts/{attempt_id}/events", params={"after_seq": after, "limit": 1000})
            items = json.loads(answer.raise_for_status().text, parse_constant=_refuse)["items"]
            if not items:
                return events
            events += [item["event"] for item in items]
            after = items[-1]["seq"]


def _refuse(word: str) -> object:
    raise BenchFailed(f"the coordinator answered with a bare {word}, which is not JSON")


if __name__ == "__main__":
    sys.exit(main())
