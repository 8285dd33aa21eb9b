"""Delivery from the journal to a coordinator that loses answers, refuses, and forgets."""

import asyncio
import gzip
import json
from typing import Any

import msgspec
import pytest
from delivery_scene import ATTEMPT, FINISHED, Scene
from scripted_coordinator import Answer, html, refusal

from worker_core.journal.records import AttemptEnd, JournalFull
from worker_core.wire.events import Metric
from worker_core.wire.work import Completion, Release


async def test_every_event_arrives_once_in_order_though_every_second_answer_is_lost(scene: Scene) -> None:
    lost = Answer(raw=b"")
    taken = 0

    def lose_after_taking(seen: Any) -> Answer | None:
        nonlocal taken
        taken += 1
        if taken % 2:
            from worker_core.wire.work import EventBatch

            scene.coordinator._take_events(ATTEMPT, seen.read(EventBatch))
            return lost
        return None

    scene.coordinator.script("POST", ".*/events", *[lose_after_taking] * 100)
    await scene.add_events(1200)
    await scene.begin()
    await scene.finish(timeout_s=30)
    assert scene.steps == list(range(1200))
    assert scene.completion.final_seq == 1200
    assert scene.watch.done == [ATTEMPT]


async def test_a_refused_event_is_replaced_by_a_marker_and_its_neighbours_arrive(scene: Scene) -> None:
    scene.coordinator.script("POST", ".*/events", refusal("bad-event", "no such thing", index=3))
    await scene.add_events(8)
    await scene.begin()
    await scene.finish()
    assert scene.steps == [0, 1, 2, 4, 5, 6, 7]
    assert scene.completion.final_seq == 8
    assert scene.coordinator.count("POST", ".*/events") == 2


async def test_a_batch_that_is_refused_without_saying_which_is_halved_down_to_the_culprit(scene: Scene) -> None:
    def refuse_five(seen: Any) -> Answer | None:
        return refusal("too-large") if any(item.get("step") == 5 for item in seen.json()["events"]) else None

    scene.coordinator.script("POST", ".*/events", *[refuse_five] * 50)
    await scene.add_events(12)
    await scene.begin()
    await scene.finish()
    assert scene.steps == [step for step in range(12) if step != 5]


async def test_a_lost_completion_answer_is_asked_for_again(scene: Scene) -> None:
    scene.coordinator.script("POST", ".*/complete", Answer(raw=b""), html(), refusal("internal"))
    await scene.begin()
    await scene.finish()
    assert scene.completion.outcome == "succeeded"


async def test_what_the_coordinator_misses_at_the_end_is_sent_again(scene: Scene) -> None:
    digest = await scene.add_file(b"weights")
    scene.coordinator.script("POST", ".*/complete", refusal("artifacts-missing", missing=(digest,)))
    await scene.begin()
    await scene.finish()
    assert scene.completion.artifacts == (digest,)


async def test_an_end_that_is_asked_for_long_and_often_is_said_until_it_is_recorded(scene: Scene) -> None:
    digest = await scene.add_file(b"weights")
    scene.coordinator.script("POST", ".*/complete", *[refusal("artifacts-missing", missing=(digest,))] * 12)
    await scene.begin()
    await scene.journal.set_end(ATTEMPT, FINISHED)
    scene.delivery.conclude(ATTEMPT)
    await asyncio.sleep(1.5)
    assert 2 <= scene.coordinator.count("POST", ".*/complete") <= 3, "it waits between its rounds"
    while not await scene.delivery.settled(ATTEMPT, 0.1):
        scene.delivery.go_on()  # the coordinator answers: no need to wait
    assert scene.coordinator.count("POST", ".*/complete") == 13
    assert scene.completion.artifacts == (digest,)
    assert scene.watch.done == [ATTEMPT]
    assert await scene.journal.set_aside_items() == []


async def test_an_attempt_the_coordinator_does_not_know_is_given_up_only_after_it_was_shown_again(
    scene: Scene,
) -> None:
    gone = [refusal("not-found", "no such attempt")]
    scene.coordinator.script("POST", f"/v1/attempts/{ATTEMPT}/events", *gone)
    await scene.add_events(3)
    await scene.begin()
    await scene.coordinator.until(lambda: len(scene.steps) == 3)
    assert scene.watch.lost == []
    scene.coordinator.script("POST", f"/v1/attempts/{ATTEMPT}/events", *gone)
    await scene.add_events(1)
    await scene.coordinator.until(lambda: scene.watch.lost)
    assert scene.watch.asked_again == [ATTEMPT, ATTEMPT]


async def test_a_superseded_attempt_is_given_up_at_once(scene: Scene) -> None:
    scene.coordinator.script("POST", ".*/events", refusal("lease-superseded"))
    await scene.add_events(5)
    await scene.begin()
    await scene.finish()
    assert [lost[0] for lost in scene.watch.lost] == [ATTEMPT]
    assert scene.coordinator.completions == {}


async def test_a_release_names_the_newest_checkpoint_that_arrived(scene: Scene) -> None:
    await scene.add_file(b"old", "checkpoint", 10)
    await scene.begin()
    await scene.coordinator.until(lambda: scene.coordinator.artifacts[ATTEMPT])
    newest = await scene.add_file(b"new", "checkpoint", 20)
    await scene.journal.put_release(ATTEMPT, Release(epoch=1, reason="stopped"))
    await scene.finish(AttemptEnd(how="stopped"))
    release = scene.coordinator.releases[ATTEMPT]
    assert (release.checkpoint, release.step) == (newest, 20)


async def test_a_release_waits_only_so_long_for_its_checkpoint(scene: Scene) -> None:
    scene.coordinator.params = msgspec.structs.replace(scene.coordinator.params, checkpoint_upload_wait_s=0.3)
    scene.coordinator.script("PATCH", ".*", *[refusal("internal")] * 1000)
    await scene.add_file(b"slow", "checkpoint", 10)
    await scene.begin()
    await scene.journal.put_release(ATTEMPT, Release(epoch=1, reason="stopped"))
    await scene.finish(AttemptEnd(how="stopped"), timeout_s=5)
    assert scene.coordinator.releases[ATTEMPT].checkpoint is None


async def test_a_cancelled_attempt_is_reported_with_its_events_and_without_waiting_for_files(scene: Scene) -> None:
    scene.coordinator.script("POST", ".*/artifacts", *[refusal("internal")] * 100)
    await scene.add_events(3)
    await scene.add_file(b"weights")
    await scene.begin()
    await scene.journal.put_completion(ATTEMPT, Completion(epoch=1, outcome="canceled", final_seq=3))
    await scene.finish(AttemptEnd(how="stopped"), timeout_s=5)
    assert scene.completion.outcome == "canceled"
    assert scene.steps == [0, 1, 2]


async def test_a_delivery_goes_on_after_a_restart_where_it_stopped(scene: Scene) -> None:
    await scene.add_events(700)
    await scene.begin()
    await scene.coordinator.until(lambda: scene.coordinator.events[ATTEMPT])
    await scene.journal.set_end(ATTEMPT, FINISHED)
    await scene.delivery.stop()
    scene.delivery = scene.make_delivery()
    await scene.begin()
    assert await scene.delivery.settled(ATTEMPT, 10)
    assert scene.steps == list(range(700))


async def test_a_refusal_of_the_whole_connection_is_told_and_delivery_waits(scene: Scene) -> None:
    scene.coordinator.script("POST", ".*/events", refusal("session-ended"))
    await scene.add_events(3)
    await scene.begin()
    await scene.finish()
    assert [getattr(fault, "code", "") for fault in scene.watch.faults] == ["session-ended"]
    assert scene.steps == [0, 1, 2]


async def test_a_revocation_ends_a_delivery(scene: Scene) -> None:
    scene.coordinator.revoke()
    await scene.add_events(3)
    await scene.begin()
    assert await scene.delivery.settled(ATTEMPT, 5)
    assert type(scene.watch.faults[0]).__name__ == "WorkerRevoked"
    assert scene.watch.done == scene.watch.lost == []


async def test_long_batches_travel_packed(scene: Scene) -> None:
    await scene.add_events(100, text="the same line again and again")
    await scene.begin()
    await scene.finish()
    sent = [seen for seen in scene.coordinator.seen if seen.path.endswith("/events")]
    assert sent[0].headers["content-encoding"] == "gzip"
    assert len(sent[0].body) < 1000


async def test_a_coordinator_that_asks_for_events_of_long_ago_is_not_asked_again_and_again(scene: Scene) -> None:
    await scene.add_events(5)
    await scene.begin()
    await scene.coordinator.until(lambda: len(scene.steps) == 5)
    scene.coordinator.script("POST", ".*/events", *[refusal("event-gap", next_seq=0)] * 10_000)
    sent = scene.coordinator.count("POST", ".*/events")
    await scene.add_events(1)
    await asyncio.sleep(2)
    assert 1 <= scene.coordinator.count("POST", ".*/events") - sent <= 3


async def test_a_full_disk_holds_a_delivery_up_and_ends_it_not(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, full = scene.journal.events_taken, [True, True]

    async def events_taken(attempt_id: str, next_seq: int) -> None:
        if full:
            full.pop()
            raise JournalFull("The disk is full.")
        await honest(attempt_id, next_seq)

    monkeypatch.setattr(scene.journal, "events_taken", events_taken)
    await scene.add_events(5)
    await scene.begin()
    await scene.finish()
    assert scene.steps == [0, 1, 2, 3, 4]
    assert scene.completion.outcome == "succeeded"


async def test_what_the_coordinator_never_takes_is_set_aside_by_name(scene: Scene) -> None:
    await scene.add_file(b"too much", name="model.bin")
    scene.coordinator.script("POST", ".*/artifacts", refusal("too-large"))
    await scene.add_events(1)
    scene.coordinator.script("POST", ".*/events", refusal("bad-event", "no such metric", index=0))
    await scene.begin()
    await scene.finish()
    named = {item.what: item.reason for item in await scene.journal.set_aside_items()}
    assert named == {"result model.bin": "too-large", "event 0: metrics x of step 0": "bad-event"}
    assert [one.reason for one in scene.completion.missing] == ["too-large"]


def no_bare_word(word: str) -> float:
    raise AssertionError(f"{word} is not JSON")


async def test_after_an_outage_every_point_is_there_once_in_order_and_in_strict_json(scene: Scene) -> None:
    special = ("NaN", "Infinity", "-Infinity", -0.0, 1e308, 2.0**80)
    said = [
        Metric(ts=0.0, step=step, values={"x": special[step % 6] if step % 2 else step / 7, "y": 1.0})
        for step in range(2000)
    ]
    await scene.begin()
    port = scene.coordinator.port
    for number, event in enumerate(said):
        appended = scene.journal.append(ATTEMPT, event)
        if number == 100:
            await appended.committed
            await scene.coordinator.until(lambda: len(scene.steps) > 0)
            await scene.coordinator.stop()
        if number == 1500:
            await appended.committed
    assert len(scene.steps) < 1500
    scene.coordinator.script("POST", ".*/events", Answer(raw=b""))
    await scene.coordinator.start(port)
    await scene.finish(timeout_s=60.0)
    assert scene.coordinator.events[ATTEMPT] == said
    for seen in scene.coordinator.seen:
        if seen.path.endswith("/events"):
            json.loads(gzip.decompress(seen.body), parse_constant=no_bare_word)
