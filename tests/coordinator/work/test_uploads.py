"""Bytes come in by chunks, are checked twice, resume where they stopped, and are told to nobody else."""

import copy
import hashlib
import os
import threading
import time

import httpx
import pytest
from sqlalchemy import update

from coordinator.api.ranges import slice_for
from coordinator.storage.schema_queue import upload as upload_table

BIG = os.urandom(3 << 20)


@pytest.fixture
def grant(hand, worker):
    hand.submit()
    return hand.take(worker)


def start(hand, worker, grant, data, **changes):
    answer = hand.announce(worker, grant, data, **changes)
    assert answer.status_code == 201, answer.text
    return answer.json()["upload"]["id"]


def test_an_interrupted_upload_goes_on_where_it_stands(hand, worker, grant):
    upload_id = start(hand, worker, grant, BIG)
    half = len(BIG) // 2
    assert hand.patch(worker, upload_id, 0, BIG[:half]).headers["upload-offset"] == str(half)
    wrong = hand.patch(worker, upload_id, 0, BIG[:half])
    assert (wrong.status_code, wrong.json()["code"]) == (409, "mismatching-offset")
    early = hand.finish(worker, upload_id, BIG)
    assert early.json()["code"] == "mismatching-offset"
    stands = worker.call("HEAD", f"/v1/uploads/{upload_id}")
    assert (stands.status_code, stands.headers["upload-offset"]) == (204, str(half))
    again = hand.announce(worker, grant, BIG)
    assert again.json()["upload"] == {"id": upload_id, "offset": half, "chunk": 8 << 20}
    assert hand.patch(worker, upload_id, half, BIG[half:]).status_code == 204
    assert hand.finish(worker, upload_id, BIG).status_code == 200
    assert hand.finish(worker, upload_id, BIG).status_code == 200
    assert hand.announce(worker, grant, BIG).json()["exists"] is True


def test_a_chunk_that_changed_on_the_way_is_refused(hand, worker, grant):
    upload_id = start(hand, worker, grant, b"good bytes")
    refused = hand.patch(worker, upload_id, 0, b"evil bytes", digest_of=b"good bytes")
    assert (refused.status_code, refused.json()["code"]) == (422, "digest-mismatch")
    assert worker.call("HEAD", f"/v1/uploads/{upload_id}").headers["upload-offset"] == "0"


def test_bytes_that_are_not_what_was_announced_start_again(hand, worker, grant):
    good, evil = b"announced bytes", b"different bytes"
    upload_id = start(hand, worker, grant, good)
    hand.patch(worker, upload_id, 0, evil)
    refused = hand.finish(worker, upload_id, good)
    assert (refused.status_code, refused.json()["code"]) == (422, "digest-mismatch")
    assert worker.call("HEAD", f"/v1/uploads/{upload_id}").headers["upload-offset"] == "0"
    hand.patch(worker, upload_id, 0, good)
    assert hand.finish(worker, upload_id, good).status_code == 200


@pytest.mark.parametrize(
    "headers", [{}, {"Upload-Offset": "x"}, {"Upload-Offset": "0", "Content-Digest": "sha-256=:!:"}]
)
def test_a_chunk_without_its_headers_is_refused_with_the_cure(hand, worker, grant, headers):
    upload_id = start(hand, worker, grant, os.urandom(10))
    refused = worker.call("PATCH", f"/v1/uploads/{upload_id}", content=b"0123456789", headers=headers)
    assert refused.status_code == 400
    assert "send" in refused.json()["detail"]


def test_more_bytes_than_announced_are_refused(hand, worker, grant):
    upload_id = start(hand, worker, grant, b"short")
    assert hand.patch(worker, upload_id, 0, b"much longer").json()["code"] == "too-large"


def test_an_empty_artifact_is_an_artifact(hand, worker, grant):
    upload_id = start(hand, worker, grant, b"", name="empty")
    assert hand.finish(worker, upload_id, b"").status_code == 200


def test_a_completion_waits_for_its_artifacts_unless_they_are_given_up(hand, worker, grant):
    sha256 = hashlib.sha256(b"late").hexdigest()
    refused = hand.complete(worker, grant, 0, artifacts=[sha256])
    assert (refused.json()["code"], refused.json()["missing"]) == ("artifacts-missing", [sha256])
    given_up = [{"sha256": sha256, "reason": "quota"}]
    assert hand.complete(worker, grant, 0, artifacts=[sha256], missing=given_up).status_code == 200


def test_another_worker_and_another_account_see_nothing_of_it(hand, worker, grant, other_worker, coordinator):
    secret = os.urandom(1000)
    upload_id = start(hand, worker, grant, secret)
    assert other_worker.call("HEAD", f"/v1/uploads/{upload_id}").status_code == 404
    hand.patch(worker, upload_id, 0, secret)
    hand.finish(worker, upload_id, secret)
    coordinator.account("eve@example.org")
    eve = coordinator.person("eve@example.org")
    probe = {"name": "x", "sha256": hashlib.sha256(secret).hexdigest(), "size": len(secret)}
    assert eve.send("POST", "/v1/blobs", probe).status_code == 201
    (artifact,) = hand.person.send("GET", f"/v1/jobs/{grant.job_id}/artifacts").json()["items"]
    assert eve.send("GET", f"/v1/artifacts/{artifact['id']}").status_code == 404
    for path in (f"/v1/jobs/{grant.job_id}", f"/v1/jobs/{grant.job_id}/logs", f"/v1/attempts/{grant.id}/events"):
        assert eve.send("GET", path).status_code == 404
    assert eve.send("POST", f"/v1/jobs/{grant.job_id}/cancel").status_code == 404


def test_a_quota_refuses_an_artifact_before_its_bytes_travel(start_coordinator, hand_of):
    coordinator = start_coordinator(account_quota_bytes=1000)
    hand = hand_of(coordinator.person("ada@example.org"))
    worker = coordinator.worker(hand.person)
    hand.submit()
    refused = hand.announce(worker, hand.take(worker), b"x" * 2000)
    assert (refused.status_code, refused.json()["code"]) == (413, "too-large")


def test_an_upload_dies_with_its_workers_authorization(hand, worker, grant, ada):
    secret = os.urandom(1000)
    upload_id = start(hand, worker, grant, secret)
    hand.patch(worker, upload_id, 0, secret)
    ada.send("POST", f"/v1/workers/{worker.worker_id}/revoke")
    assert hand.finish(worker, upload_id, secret).json()["code"] == "worker-revoked"
    names = [
        a["name"]
        for a in ada.send("GET", f"/v1/jobs/{grant.job_id}/artifacts").json()["items"]
        if a["state"] == "ready"
    ]
    assert "revoked" not in names


def test_what_nothing_refers_to_is_collected_and_what_a_job_needs_is_not(start_coordinator, hand_of):
    coordinator = start_coordinator()
    hand = hand_of(coordinator.person("ada@example.org"))
    kept, dropped = hand.blob("kept", b"kept"), hand.blob("dropped", b"dropped")
    hand.submit(inputs=[kept])
    coordinator.forward(8 * 86400)
    coordinator.do(coordinator.services.queue.artifacts.collect())
    answers = {
        name: hand.person.send("POST", "/v1/blobs", given).status_code
        for name, given in (("kept", kept), ("dropped", dropped))
    }
    assert answers == {"kept": 200, "dropped": 201}


def test_ranges_of_a_download(hand, worker, grant, ada):
    hand.upload(worker, grant, b"0123456789", name="../../evil.html")
    (artifact,) = ada.send("GET", f"/v1/jobs/{grant.job_id}/artifacts").json()["items"]
    path = f"/v1/artifacts/{artifact['id']}"
    assert "evil.html" in ada.send("GET", path).headers["content-disposition"]
    assert ".." not in ada.send("GET", path).headers["content-disposition"]
    part = ada.send("GET", path, Range="bytes=2-4")
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert ada.send("GET", path, Range="bytes=-3").content == b"789"
    assert ada.send("GET", path, Range="bytes=10-").status_code == 416
    assert ada.send("GET", path, Range="bytes=-0").status_code == 416


@pytest.mark.parametrize(
    "header", ["bytes=5-2", "bytes=-", "bytes=0-1,3-4", "lines=0-2", f"bytes={'9' * 5000}-", "bytes=٣-", "0-1"]
)
def test_what_is_not_one_range_of_bytes_is_ignored(header):
    part = slice_for(header, 10)
    assert (part.start, part.end, part.status) == (0, 10, 200)
    assert "Content-Range" not in part.headers


def test_two_requests_do_not_write_one_upload_at_once(hand, worker, grant, coordinator):
    data = os.urandom(4 << 20)
    upload_id = start(hand, worker, grant, data)
    answers = []
    with httpx.Client(base_url=worker.url, timeout=30, trust_env=False) as http:
        threads = [
            threading.Thread(target=lambda client=client: answers.append(hand.patch(client, upload_id, 0, data)))
            for client in (worker, twin_of(worker, http))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    codes = sorted(answer.status_code for answer in answers)
    assert codes in ([204, 423], [204, 409])
    assert hand.finish(worker, upload_id, data).status_code == 200


def twin_of(worker, http):
    """A second HTTP client with the worker's key and token."""
    twin = copy.copy(worker)
    twin.http = http
    return twin


def test_hashing_a_huge_upload_does_not_keep_a_stopping_coordinator_alive(start_coordinator, hand_of):
    coordinator = start_coordinator(account_quota_bytes=1 << 50)
    coordinator.services.queue.artifacts.files.has_room = lambda _size: True
    hand = hand_of(coordinator.person("ada@example.org"))
    worker = coordinator.worker(hand.person)
    hand.submit()
    grant = hand.take(worker)
    size = 64 << 30
    announced = {"epoch": grant.epoch, "name": "huge", "kind": "result", "sha256": "0" * 64, "size": size}
    upload_id = worker.call("POST", f"/v1/attempts/{grant.id}/artifacts", announced).json()["upload"]["id"]
    # A hole in a file stands for what would take hours to upload and a minute to hash.
    os.truncate(coordinator.data / "uploads" / upload_id, size)
    moved = update(upload_table).where(upload_table.c.id == upload_id).values(offset=size)
    coordinator.do(coordinator.services.db.write(lambda conn: conn.execute(moved).rowcount))
    answers = []
    body = {"sha256": "0" * 64, "size": size}
    finishing = threading.Thread(
        target=lambda: answers.append(worker.call("POST", f"/v1/uploads/{upload_id}/finish", body))
    )
    finishing.start()
    time.sleep(0.5)
    began = time.monotonic()
    coordinator.close()
    assert time.monotonic() - began < 5.0
    finishing.join(10)
    assert (answers[0].status_code, answers[0].json()["code"]) == (503, "draining")
    left = coordinator.data / "uploads" / upload_id
    assert left.stat().st_size == size, "it can be finished later"
    left.unlink()


def test_equal_bytes_under_two_names_are_two_artifacts(hand, worker):
    job_id = hand.submit()
    grant = hand.take(worker)
    sha256 = hand.upload(worker, grant, b"weights", name="best.safetensors")
    assert hand.upload(worker, grant, b"weights", name="last.safetensors") == sha256
    assert hand.complete(worker, grant, 0, artifacts=[sha256, sha256]).json() == {"recorded": "succeeded"}
    listed = hand.person.send("GET", f"/v1/jobs/{job_id}/artifacts").json()
    items = listed["items"] if isinstance(listed, dict) else listed
    assert sorted((each["name"], each["state"]) for each in items) == [
        ("best.safetensors", "ready"),
        ("last.safetensors", "ready"),
    ]
