"""An owner who wants the machine back gets it with nothing lost, and the worker comes back by itself."""

import time
from typing import Any

import pytest

from worker_core.control.messages import Request
from worker_core.control.server import ControlRefused
from worker_core.core import life as lives
from worker_core.core.life import Life, advance
from worker_core.core.operations import CoreOperations


def asked(until: float | None) -> Request:
    return Request(id="1", op="give-back", args={"until": until})


async def test_the_job_is_saved_and_given_back_and_the_time_until_the_gpu_was_free_is_told(bench: Any) -> None:
    worker = await bench.start_paired()
    operations = CoreOperations(worker, None)  # type: ignore[arg-type]
    attempt = bench.offer(steps=10_000)
    await bench.until(lambda: len(bench.coordinator.events[attempt]) > 15)
    until = time.time() + 3600
    await operations.perform(asked(until))
    assert not worker.status().given_back.freed
    release = await bench.until(lambda: bench.coordinator.releases.get(attempt))
    assert bench.coordinator.artifacts[attempt][release.checkpoint].startswith(b"checkpoint at step")
    await bench.until_state("paused")
    status = worker.status()
    assert status.reasons == ("owner:given-back",)
    assert status.mode.here == "run", "the workstation's own mode is not touched"
    assert status.given_back.freed
    assert status.given_back.until == until
    assert 0 < status.given_back.freed_s < 60
    later = bench.offer(steps=3)
    await bench.until(lambda: bench.coordinator.polls)
    assert later not in bench.coordinator.accepted
    await worker.set_mode("run", False)
    await bench.until(lambda: later in bench.coordinator.completions)
    assert worker.status().given_back is None


async def test_jobs_are_taken_again_when_the_time_is_over_and_a_restart_ends_nothing(bench: Any) -> None:
    worker = await bench.start_paired()
    await worker.give_back(None)
    await bench.until_state("paused")
    await bench.stop()
    worker = await bench.start()
    await bench.until(lambda: worker.known.life.standing == "connected")
    assert worker.status().state == "paused"
    assert worker.status().given_back.until is None
    await worker.give_back(worker.known.clock.wall() + 1.5)
    await bench.until_state("available")
    await bench.stop()
    worker = await bench.start()
    await bench.until_state("available")


@pytest.mark.parametrize("until", [0.0, -5.0, 1e18])
async def test_a_moment_that_is_over_or_never_comes_is_refused(bench: Any, until: float) -> None:
    worker = await bench.start_paired()
    operations = CoreOperations(worker, None)  # type: ignore[arg-type]
    with pytest.raises(ControlRefused, match="ahead"):
        await operations.perform(asked(until))
    assert worker.status().given_back is None


def test_the_end_of_the_owner_s_time_lifts_nothing_that_others_asked_for() -> None:
    life, actions = advance(Life("connected", "running", console="drain"), lives.OwnerMode("stop"))
    assert (life.phase, actions) == ("stopping", ("stop-job", "report"))
    life, _ = advance(life, lives.JobGone())
    assert life.phase == "paused"
    life, actions = advance(life, lives.OwnerMode("run"))
    assert (life.phase, actions) == ("drained", ("report",))


def test_a_new_pairing_does_not_take_the_machine_from_its_owner() -> None:
    life, _ = advance(Life("pairing", owner="stop"), lives.PairingApproved())
    assert life.owner == "stop"
    life, _ = advance(Life("connected", owner="stop"), lives.Revoked())
    assert life.owner == "stop"
