"""A core that is killed in mid-job, and the one that starts after it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from worker_core.machine.spawn import spawn

CORE = Path(__file__).with_name("core_process.py")


def metrics(events: list[Any]) -> list[int]:
    return [event.step for event in events if type(event).__name__ == "Metric"]


async def test_a_killed_core_costs_nothing_older_than_the_last_checkpoint_and_no_point_twice(bench: Any) -> None:
    await bench.start_paired()
    await bench.stop()
    core = spawn([sys.executable, str(CORE), str(bench.paths.data.parent)], stderr=subprocess.DEVNULL)
    try:
        attempt = bench.offer(steps=10_000, pause_s=0.02)
        await bench.until(lambda: len(metrics(bench.coordinator.events[attempt])) > 25, timeout_s=30)
    finally:
        core.kill()
        core.wait(20)
    await bench.start()
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt))
    points = metrics(bench.coordinator.events[attempt])
    assert release.reason == "crash"
    assert points == list(range(1, len(points) + 1))
    assert release.step >= len(points) - 10
    saved = bench.coordinator.artifacts[attempt][release.checkpoint]
    assert saved.startswith(b"checkpoint at step %d" % release.step)
    held = bench.coordinator.sessions[-1].held
    assert [item.attempt_id for item in held] == [attempt]
    await bench.until_state("available")


async def test_the_ids_of_earlier_starts_are_on_disk_before_they_are_sent(bench: Any) -> None:
    await bench.start_paired()
    first = bench.coordinator.sessions[-1].instance_id
    await bench.stop()
    await bench.coordinator.stop()
    await bench.start()
    await bench.until(lambda: "coordinator-unreachable" in bench.worker.known.troubles)
    unseen = bench.worker._membership.connection.instance_id
    await bench.stop()
    await bench.coordinator.start(bench.coordinator.port)
    await bench.start()
    await bench.until(lambda: bench.worker.known.life.standing == "connected")
    last = bench.coordinator.sessions[-1]
    assert last.prev_instance_ids == (first, unseen)
    assert last.instance_id not in last.prev_instance_ids
