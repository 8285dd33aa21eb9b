"""What a worker does with work it should not have: a second job, a job nobody knows, orders that meet."""

import asyncio
import json
import random
from typing import Any

from worker_core.core import life as lives
from worker_core.core.life import Event, Life, advance
from worker_core.jobs.workspace import workspace_path

FOR_EVER = {"steps": 100_000, "pause_s": 0.02}


async def start_job(bench: Any) -> str:
    await bench.start_paired()
    attempt = bench.offer(**FOR_EVER)
    await bench.until(lambda: bench.coordinator.events[attempt])
    return attempt


async def test_a_second_job_on_a_full_slot_is_declined_and_leaves_the_first_alone(bench: Any) -> None:
    first = await start_job(bench)
    (process, *_) = bench.processes_of(first)
    second = bench.offer(steps=3)
    accepted = bench.coordinator.offers[0][1]
    jws = bench.coordinator.signed_offer(second, accepted)
    bench.worker._mail.offer_seen(bench.worker.known.contact._pinned.offer(jws, bench.coordinator.gen), jws)
    await bench.until(lambda: bench.coordinator.declined)
    assert bench.coordinator.declined == [(second, "busy")]
    assert process.is_running()
    assert bench.worker.known.life.phase == "busy"
    bench.coordinator.set_mode("stop")
    release = await bench.until(lambda: bench.coordinator.releases.get(first))
    assert release.reason == "stopped"


async def test_a_job_the_coordinator_does_not_know_is_ended_its_log_stays_and_the_next_is_taken(bench: Any) -> None:
    first = await start_job(bench)
    bench.coordinator.verdicts[first] = "unknown"
    beats = len(bench.coordinator.heartbeats)
    await bench.until(lambda: bench.processes_of(first) == [])
    assert len(bench.coordinator.heartbeats) - beats <= 3
    await bench.until(lambda: bench.worker.journal.fact("kept-workspaces"))
    assert first in json.loads(bench.worker.journal.fact("kept-workspaces"))
    assert workspace_path(bench.paths, first).exists()
    later = bench.offer(steps=3)
    await bench.until(lambda: later in bench.coordinator.completions)


async def test_two_stops_at_once_and_a_cancel_in_the_middle_leave_a_free_slot(bench: Any) -> None:
    worker = await bench.start_paired()
    for index in range(3):
        attempt = bench.offer(**FOR_EVER)
        if index % 2:  # in mid-claim
            await bench.until(lambda attempt=attempt: attempt in bench.coordinator.accepted)
        else:
            await bench.until(lambda attempt=attempt: bench.coordinator.events[attempt])
        bench.coordinator.verdicts[attempt] = "cancel"
        bench.coordinator.set_mode("stop")
        await asyncio.gather(worker.set_mode("stop", False), worker.set_mode("stop", index == 2))
        await bench.until(
            lambda attempt=attempt: attempt in bench.coordinator.releases or attempt in bench.coordinator.completions
        )
        await bench.until(lambda: worker.known.life.slot == "free")
        assert bench.processes_of(attempt) == []
        bench.coordinator.set_mode("run")
        await worker.set_mode("run", False)
        await bench.until_state("available")
    last = bench.offer(steps=3)
    await bench.until(lambda: last in bench.coordinator.completions)


ORDERS: tuple[Event, ...] = (
    lives.LocalMode("stop"),
    lives.LocalMode("stop", now=True),
    lives.ConsoleMode("stop"),
    lives.CancelOrdered(),
    lives.Superseded(),
    lives.ConsoleMode("drain"),
    lives.LeaseLapsed(stop=True),
    lives.AuthorizationSeen(expired=True),
)
RESUME: tuple[Event, ...] = (
    lives.LocalMode("run"),
    lives.ConsoleMode("run"),
    lives.AuthorizationSeen(expired=False),
)
ENDS = {"stop-job", "cancel-job", "kill-job", "discard-job", "give-back"}


def test_five_hundred_rounds_of_orders_that_meet_a_claim_end_with_a_free_slot() -> None:
    dice = random.Random(32)
    life = Life("connected")
    for _ in range(500):
        life, actions = advance(life, lives.OfferSeen())
        assert actions == ("accept",)
        events: list[Event] = [*dice.sample(ORDERS, 2), lives.OfferGranted()]
        dice.shuffle(events)
        done: set[Any] = set()
        for event in events:
            life, actions = advance(life, event)
            done |= set(actions)
        if life.slot == "running":
            assert "spawn" in done
        elif "spawn" in done:
            assert done & ENDS, "a job that was started was never ended"
        else:
            assert "give-back" in done
        for event in (lives.JobExited(), lives.JobGone()):
            life, _ = advance(life, event)
        assert life.slot == "free"
        for event in RESUME:
            life, _ = advance(life, event)
        assert life == Life("connected")
