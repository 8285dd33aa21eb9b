"""Delivery from the journal to a coordinator that loses answers, refuses, and forgets."""

import asyncio
import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripted_coordinator import Answer, ScriptedCoordinator, html, message, refusal

from worker_core.journal.journal import Journal
from worker_core.journal.records import AttemptEnd, JournalFull, NewAttempt, UploadRow
from worker_core.link.client import CoordinatorClient
from worker_core.link.delivery import Delivery
from worker_core.wire.events import Log, Metric
from worker_core.wire.work import Accepted, Completion, Lease, Limits, Release, UploadFinished

ATTEMPT = "att_" + "1" * 32
FINISHED = AttemptEnd(how="finished", outcome="succeeded")


class Watch:
    """Remembers what the delivery told."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lost: list[tuple[str, str]] = []
        self.faults: list[Exception] = []
        self.asked_again: list[str] = []

    async def delivered(self, attempt_id: str) -> None:
        self.done.append(attempt_id)

    async def refused(self, attempt_id: str, why: str) -> None:
        self.lost.append((attempt_id, why))

    def unknown(self, attempt_id: str) -> bool:
        self.asked_again.append(attempt_id)
        return len(self.asked_again) == 1

    def link_failed(self, fault: Exception) -> None:
        self.faults.append(fault)


class Scene:
    """One attempt in a journal, a delivery, and a coordinator."""

    def __init__(self, journal: Journal, client: CoordinatorClient, coordinator: ScriptedCoordinator, blobs: Path):
        self.journal, self.client, self.coordinator, self.blobs = journal, client, coordinator, blobs
        self.watch = Watch()
        self.delivery = self.make_delivery()

    def make_delivery(self) -> Delivery:
        made = Delivery(
            self.client,
            self.journal,
            lambda sha256: self.blobs / sha256,
            lambda: self.coordinator.params,
            self.client.link._clock.now,
            self.watch,
        )
        made.go_on()
        return made

    async def add_attempt(self) -> None:
        accepted = Accepted(
            lease=Lease(epoch=1, ttl=30),
            spec="{}",
            job_id="job",
            job_name="a job",
            attempt=1,
            limits=Limits(max_runtime_s=60, max_disk_bytes=1 << 30, stop_grace_s=5),
        )
        self.coordinator.accepted[ATTEMPT] = accepted
        await self.journal.add_attempt(
            NewAttempt(
                attempt_id=ATTEMPT,
                job_id="job",
                job_name="a job",
                kind="rl-session",
                ordinal=1,
                epoch=1,
                offer_jws="",
                accepted=accepted,
            )
        )

    async def add_events(self, count: int, text: str = "") -> None:
        event: Any = None
        for step in range(count):
            made = Log(ts=0.0, stream="stdout", text=text) if text else Metric(ts=0.0, step=step, values={"x": 1.0})
            event = self.journal.append(ATTEMPT, made)
        await event.committed

    async def add_file(self, content: bytes, kind: Any = "result", step: int | None = None, name: str = "") -> str:
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        await self.journal.add_upload(
            UploadRow(
                attempt_id=ATTEMPT,
                sha256=digest,
                name=name or f"{kind}-{digest[:4]}",
                kind=kind,
                size=len(content),
                step=step,
            )
        )
        return digest

    async def begin(self) -> None:
        row = await self.journal.attempt(ATTEMPT)
        assert row is not None
        self.delivery.begin(row)

    async def finish(self, end: AttemptEnd = FINISHED, timeout_s: float = 15.0) -> None:
        await self.journal.set_end(ATTEMPT, end)
        self.delivery.conclude(ATTEMPT)
        assert await self.delivery.settled(ATTEMPT, timeout_s)

    @property
    def steps(self) -> list[int]:
        return [event.step for event in self.coordinator.events[ATTEMPT] if isinstance(event, Metric)]

    @property
    def completion(self) -> Completion:
        return self.coordinator.completions[ATTEMPT]


@pytest.fixture
async def scene(
    journal: Journal, client: CoordinatorClient, coordinator: ScriptedCoordinator, tmp_path: Path
) -> AsyncIterator[Scene]:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    made = Scene(journal, client, coordinator, blobs)
    await made.add_attempt()
    yield made
    await made.delivery.stop()


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


async def test_files_arrive_whole_and_are_named_in_the_completion(scene: Scene) -> None:
    big = bytes(range(256)) * 2000
    digest = await scene.add_file(big)
    await scene.begin()
    await scene.finish()
    assert scene.coordinator.artifacts[ATTEMPT][digest] == big
    assert scene.completion.artifacts == (digest,)
    assert scene.coordinator.count("PATCH", ".*") == 8


async def test_equal_bytes_under_two_names_both_arrive(scene: Scene) -> None:
    content = b"the same weights"
    await scene.add_file(content, name="best.safetensors")
    await scene.add_file(content, name="last.safetensors")
    await scene.add_file(content, kind="checkpoint", step=3, name="last.safetensors")
    await scene.begin()
    await scene.finish()
    announced = [seen.json() for seen in scene.coordinator.seen if seen.path.endswith("/artifacts")]
    arrived = [(each["kind"], each["name"]) for each in announced]
    assert sorted(arrived) == [
        ("checkpoint", "last.safetensors"),
        ("result", "best.safetensors"),
        ("result", "last.safetensors"),
    ]
    rows = await scene.journal.uploads(ATTEMPT, unfinished=False)
    assert [row.state for row in rows] == ["done"] * 3
    assert len({row.artifact_id for row in rows}) == 3


async def test_an_upload_goes_on_at_its_offset_after_faults_of_every_kind(scene: Scene) -> None:
    scene.coordinator.script(
        "PATCH", ".*", Answer(raw=b""), html(502), refusal("upload-locked", retry_after_s=0.01), refusal("internal")
    )
    content = b"weights" * 30_000
    digest = await scene.add_file(content)
    await scene.begin()
    await scene.finish()
    assert scene.coordinator.artifacts[ATTEMPT][digest] == content


async def test_an_upload_spoilt_on_the_way_starts_again(scene: Scene) -> None:
    def spoil(seen: Any) -> Answer | None:
        seen.body = b"\x00" * len(seen.body)
        return None

    scene.coordinator.script("PATCH", ".*", spoil)
    digest = await scene.add_file(b"weights" * 100)
    await scene.begin()
    await scene.finish()
    assert digest in scene.coordinator.artifacts[ATTEMPT]


@pytest.mark.parametrize("trouble", ["quota", "lost here"])
async def test_a_file_that_cannot_arrive_is_named_missing_and_blocks_nothing(scene: Scene, trouble: str) -> None:
    digest = await scene.add_file(b"weights")
    if trouble == "quota":
        scene.coordinator.script("POST", ".*/artifacts", refusal("too-large", "over the account's quota"))
    else:
        (scene.blobs / digest).unlink()
    await scene.begin()
    await scene.finish()
    assert scene.completion.artifacts == ()
    assert [missing.sha256 for missing in scene.completion.missing] == [digest]


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


async def test_a_file_that_was_cut_short_here_is_named_missing(scene: Scene) -> None:
    digest = await scene.add_file(b"weights" * 1000)
    (scene.blobs / digest).write_bytes(b"weights")
    await scene.begin()
    await scene.finish(timeout_s=5)
    assert [missing.sha256 for missing in scene.completion.missing] == [digest]
    assert "bytes are left" in scene.completion.missing[0].reason


async def test_an_upload_that_does_not_move_is_not_sent_in_a_storm(scene: Scene) -> None:
    stuck = Answer(status=204, headers={"Upload-Offset": "0"})
    scene.coordinator.script("PATCH", ".*", *[stuck] * 10_000)
    await scene.add_file(b"weights" * 1000)
    await scene.begin()
    await asyncio.sleep(2)
    assert 1 <= scene.coordinator.count("PATCH", ".*") <= 3


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


OTHER_FILE = message(UploadFinished(sha256="0" * 64, size=4))


@pytest.mark.parametrize(
    "doubtful",
    [
        Answer(202, b"{}", "application/json"),
        Answer(200, b"", "application/json"),
        Answer(200, b"{}", "application/json"),
        html(200),
        refusal("rate-limited", retry_after_s=0.05),
        refusal("draining", retry_after_s=0.05),
        refusal("disk-full", retry_after_s=0.05),
        OTHER_FILE,
    ],
    ids=["202", "empty 200", "200 without a hash", "html", "429", "503", "507", "200 with another hash"],
)
async def test_a_file_counts_as_delivered_only_by_an_answer_with_its_hash(scene: Scene, doubtful: Answer) -> None:
    digest = await scene.add_file(b"data")
    honest = asyncio.Event()
    scene.coordinator.script("POST", ".*/finish", *[lambda _: None if honest.is_set() else doubtful] * 9)
    await scene.begin()
    await scene.coordinator.until(lambda: scene.coordinator.count("POST", ".*/finish") >= 2)
    # What the journal calls unfinished is pinned: neither housekeeping nor a short disk may remove it.
    (row,) = await scene.journal.uploads(ATTEMPT)
    assert row.state == "sending"
    honest.set()
    await scene.finish()
    (row,) = await scene.journal.uploads(ATTEMPT, unfinished=False)
    assert row.state == "done"
    assert scene.coordinator.artifacts[ATTEMPT] == {digest: b"data"}
    assert scene.completion.artifacts == (digest,)


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
