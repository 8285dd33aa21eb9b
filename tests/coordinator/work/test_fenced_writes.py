"""Every write of a worker against every way in which it may have lost its right to it: refused, and nothing changed."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from coordinator.storage.schema_queue import artifact, attempt, blob, event, job, metric_point, upload
from worker_core.wire.ids import new_id

DATA = b"half of a result and the other half"
HALF = len(DATA) // 2
WRITES = (
    "accept",
    "decline",
    "heartbeat",
    "events",
    "announce",
    "patch",
    "finish",
    "input",
    "complete",
    "release",
)


class Target:
    """An attempt with an upload under way, and who writes to it with which epoch."""

    def __init__(self, hand: Any, worker: Any) -> None:
        self.job_id = hand.submit(inputs=[hand.blob("notes", b"an input")])
        self.writer, self.grant = worker, hand.take(worker)
        self.upload_id = hand.announce(worker, self.grant, DATA).json()["upload"]["id"]
        assert hand.patch(worker, self.upload_id, 0, DATA[:HALF]).status_code == 204


def write(hand: Any, target: Target, what: str) -> Any:
    """Send one write; returns its answer."""
    worker, grant = target.writer, target.grant
    match what:
        case "accept":
            return hand.accept(worker, grant.id, grant.epoch)
        case "decline":
            body = {"epoch": grant.epoch, "reason": "busy", "retry_after_s": 1.0}
            return worker.call("POST", f"/v1/attempts/{grant.id}/decline", body)
        case "heartbeat":
            return hand.beat(worker, grant, 50, step=77)
        case "events":
            return hand.events(worker, grant, 0, [hand.metric(1, loss=9.0)])
        case "announce":
            return hand.announce(worker, grant, b"other bytes", name="other")
        case "patch":
            return hand.patch(worker, target.upload_id, HALF, DATA[HALF:])
        case "finish":
            return hand.finish(worker, target.upload_id, DATA)
        case "input":
            digest = hashlib.sha256(b"an input").hexdigest()
            return worker.call("GET", f"/v1/attempts/{grant.id}/inputs/{digest}")
        case "complete":
            return hand.complete(worker, grant, 0, artifacts=[])
        case _:
            return hand.release(worker, grant)


def said(response: Any) -> str:
    """What an answer says: its code, the verdict of a heartbeat, or its status."""
    kind = response.headers.get("content-type", "")
    if kind == "application/json" and "leases" in response.json():
        return response.json()["leases"][0]["verdict"]
    if kind == "application/problem+json":
        return response.json()["code"]
    return str(response.status_code)


def rows(coordinator: Any) -> list[Any]:
    """Everything that a worker's write may change."""
    coordinator.do(coordinator.services.queue.leases.flush())
    tables = (job, attempt, event, metric_point, artifact, upload, blob)

    def read(conn: Any) -> list[Any]:
        return [[tuple(row) for row in conn.execute(select(table)).all()] for table in tables]

    return coordinator.services.queue._db.read_sync(read)


def stale(hand: Any, target: Target, _: Any) -> None:
    target.grant.epoch -= 1


def ahead(hand: Any, target: Target, _: Any) -> None:
    target.grant.epoch += 1


def ended(hand: Any, target: Target, _: Any) -> None:
    assert hand.fail(target.writer, target.grant, "exception").status_code == 200


def given_back(hand: Any, target: Target, _: Any) -> None:
    assert hand.release(target.writer, target.grant).status_code == 204
    hand.cancel(target.job_id)


def canceled(hand: Any, target: Target, _: Any) -> None:
    hand.cancel(target.job_id)
    assert hand.complete(target.writer, target.grant, 0, "canceled").status_code == 200


def superseded(hand: Any, target: Target, scene: Any) -> None:
    scene.coordinator.forward(316)
    scene.coordinator.do(scene.coordinator.services.queue._reaper.reap())
    scene.coordinator.forward(61)
    scene.coordinator.do(scene.coordinator.services.queue._reaper.reap())
    again = hand.take(scene.other)
    assert again.job_id == target.job_id


def of_another(hand: Any, target: Target, scene: Any) -> None:
    target.writer = scene.other


def of_another_account(hand: Any, target: Target, scene: Any) -> None:
    target.writer = scene.stranger


def revoked(hand: Any, target: Target, scene: Any) -> None:
    assert hand.person.send("POST", f"/v1/workers/{target.writer.worker_id}/revoke").status_code == 200


def replaced(hand: Any, target: Target, scene: Any) -> None:
    old = target.writer
    token = old.token
    held = {"attempt_id": target.grant.id, "epoch": target.grant.epoch, "phase": "running", "next_seq": 0}
    scene.reconnect(old, held)
    old.token = token


def unknown(hand: Any, target: Target, _: Any) -> None:
    target.grant.id = new_id("att")
    target.upload_id = new_id("upl")


SUPERSEDED = dict.fromkeys(WRITES, "lease-superseded") | {
    "decline": "204",
    "heartbeat": "superseded",
    "input": "no-lease",
}
ABSENT = dict.fromkeys(WRITES, "not-found") | {"heartbeat": "unknown"}
CASES: dict[str, tuple[Callable[..., None], dict[str, str]]] = {
    "an older epoch": (stale, {**SUPERSEDED, "patch": "", "finish": "", "input": ""}),
    "a newer epoch": (ahead, {**SUPERSEDED, "patch": "", "finish": "", "input": ""}),
    "an attempt that has ended": (ended, {**SUPERSEDED, "complete": "already-completed"}),
    "an attempt that was given back": (given_back, {**SUPERSEDED, "accept": "job-canceled", "release": "204"}),
    "a cancelled attempt": (canceled, {**SUPERSEDED, "accept": "job-canceled", "complete": "already-completed"}),
    "an attempt that lost its job to another": (superseded, SUPERSEDED),
    "another worker's attempt": (of_another, ABSENT),
    "an attempt of another account": (of_another_account, ABSENT),
    "an attempt nobody knows": (unknown, ABSENT),
    "a revoked worker": (revoked, dict.fromkeys(WRITES, "worker-revoked")),
    "a connection that was replaced": (replaced, dict.fromkeys(WRITES, "session-replaced")),
}


class Scene:
    """Other workers, and a way to connect again."""

    def __init__(self, coordinator: Any, other: Any, stranger: Any) -> None:
        self.coordinator, self.other, self.stranger = coordinator, other, stranger

    @staticmethod
    def reconnect(worker: Any, held: dict[str, Any]) -> None:
        worker.connect(instance_id=new_id("ins"), prev_instance_ids=[worker.instance_id], held=[held])


@pytest.fixture
def scene(coordinator: Any, other_worker: Any, stranger: Any) -> Scene:
    return Scene(coordinator, other_worker, stranger)


@pytest.fixture(scope="module")
def stranger(coordinator: Any) -> Any:
    """A worker of another account."""
    coordinator.account("bob@example.org")
    return coordinator.worker(coordinator.person("bob@example.org"))


@pytest.mark.parametrize("case", CASES)
def test_a_write_without_the_right_to_it_is_refused_and_changes_nothing(
    case: str, hand: Any, worker: Any, scene: Scene
) -> None:
    spoil, expected = CASES[case]
    target = Target(hand, worker)
    spoil(hand, target, scene)
    before = rows(scene.coordinator)
    for what in WRITES:
        if expected[what]:
            assert said(write(hand, target, what)) == expected[what], what
            assert rows(scene.coordinator) == before, what


def test_with_the_right_to_it_every_write_is_taken(hand: Any, worker: Any, scene: Scene) -> None:
    target = Target(hand, worker)
    answers = {what: said(write(hand, target, what)) for what in WRITES if what not in ("complete", "release")}
    done = hand.complete(worker, target.grant, 1, artifacts=[hashlib.sha256(DATA).hexdigest()])
    assert done.json() == {"recorded": "succeeded"}
    assert answers == {
        "accept": "200",
        "decline": "204",
        "heartbeat": "ok",
        "events": "200",
        "announce": "201",
        "patch": "204",
        "finish": "200",
        "input": "200",
    }
