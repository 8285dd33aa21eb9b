"""Files arrive whole and under their names, and none is given up before the coordinator has proven that it has it."""

import asyncio
from typing import Any

import pytest
from delivery_scene import ATTEMPT, Scene
from scripted_coordinator import Answer, html, message, refusal

from worker_core.wire.work import UploadFinished


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
