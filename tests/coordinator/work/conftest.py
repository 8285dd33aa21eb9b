"""A hand that does what a worker's core does, one request at a time, and what a person's script does."""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc import jws


def spec(**changes: Any) -> str:
    """Return a small valid spec as it travels."""
    fields: dict[str, Any] = {
        "kind": "rl-session",
        "name": "lander",
        "system": {"simulator": {"entry": "gymnasium:CartPole-v1"}},
        "training": {"cycles": 4},
        **changes,
    }
    return json.dumps(fields, sort_keys=True)


def metric(step: int, ts: float = 1.0, **values: Any) -> dict[str, Any]:
    return {"t": "m", "ts": ts, "step": step, "values": values}


def log_line(text: str, stream: str = "stdout") -> dict[str, Any]:
    return {"t": "l", "ts": 2.0, "stream": stream, "text": text}


class Grant:
    """An accepted attempt."""

    def __init__(self, attempt_id: str, epoch: int, accepted: dict[str, Any]) -> None:
        self.id = attempt_id
        self.epoch = epoch
        self.job_id: str = accepted["job_id"]
        self.accepted = accepted


class Hand:
    """Steps of the main job over HTTP."""

    spec = staticmethod(spec)
    metric = staticmethod(metric)
    log_line = staticmethod(log_line)

    def __init__(self, person: Any) -> None:
        self.person = person

    # -- a person ---------------------------------------------------------------------------------------------------

    def submit(self, inputs: Any = (), **changes: Any) -> str:
        response = self.person.send("POST", "/v1/jobs", {"spec": spec(**changes), "inputs": inputs})
        assert response.status_code == 201, response.text
        return response.json()["job_id"]

    def job(self, job_id: str) -> dict[str, Any]:
        response = self.person.send("GET", f"/v1/jobs/{job_id}")
        assert response.status_code == 200, response.text
        return response.json()

    def cancel(self, job_id: str) -> Any:
        return self.person.send("POST", f"/v1/jobs/{job_id}/cancel")

    def drop_queue(self) -> None:
        """Cancel what other tests of the module left waiting."""
        for state in ("queued", "running"):
            for job in self.person.send("GET", f"/v1/jobs?state={state}&limit=200").json()["items"]:
                self.cancel(job["id"])

    # -- a worker ---------------------------------------------------------------------------------------------------

    def poll(self, worker: Any, wait: float = 5.0, free_slots: int = 1, **more: Any) -> Any:
        approved = worker.seen if hasattr(worker, "seen") else None
        message = {"wait": wait, "free_slots": free_slots, "observed": approved or {"gen": 0, "rev": 0}, **more}
        response = worker.call("POST", "/v1/poll", message)
        if response.status_code == 200 and "control" in response.json():
            control = response.json()["control"]
            worker.seen = {"gen": control["gen"], "rev": control["rev"]}
        return response

    def offer(self, worker: Any, wait: float = 5.0) -> dict[str, Any] | None:
        """Poll until there is an offer or nothing more to say."""
        for _ in range(4):
            response = self.poll(worker, wait)
            if response.status_code == 204:
                return None
            assert response.status_code == 200, response.text
            token = response.json().get("offer")
            if token:
                return json.loads(jws.extract_compact(token.encode()).payload)
        return None

    def accept(self, worker: Any, attempt_id: str, epoch: int) -> Any:
        return worker.call("POST", f"/v1/attempts/{attempt_id}/accept", {"epoch": epoch})

    def take(self, worker: Any) -> Grant:
        """Poll, accept, and return what was granted."""
        offer = self.offer(worker)
        assert offer is not None, "nothing was offered"
        response = self.accept(worker, offer["attempt_id"], offer["epoch"])
        assert response.status_code == 200, response.text
        return Grant(offer["attempt_id"], offer["epoch"], response.json())

    def events(self, worker: Any, grant: Grant, first_seq: int, events: list[Any], **more: Any) -> Any:
        body = gzip.compress(json.dumps({"epoch": grant.epoch, "first_seq": first_seq, "events": events}).encode())
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        return worker.call("POST", f"/v1/attempts/{grant.id}/events", content=more.get("body", body), headers=headers)

    def beat(self, worker: Any, grant: Grant, n: int = 1, **report: Any) -> Any:
        lease = {"attempt_id": grant.id, "epoch": grant.epoch, "phase": "running", **report}
        return worker.call("POST", "/v1/heartbeat", {"n": n, "leases": [lease]})

    def verdict(self, worker: Any, grant: Grant, n: int = 1) -> str:
        response = self.beat(worker, grant, n)
        assert response.status_code == 200, response.text
        return response.json()["leases"][0]["verdict"]

    def announce(self, worker: Any, grant: Grant, data: bytes, **changes: Any) -> Any:
        message = {
            "epoch": grant.epoch,
            "name": "policy.safetensors",
            "kind": "result",
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            **changes,
        }
        return worker.call("POST", f"/v1/attempts/{grant.id}/artifacts", message)

    def patch(self, caller: Any, upload_id: str, offset: int, chunk: bytes, digest_of: bytes | None = None) -> Any:
        digest = hashlib.sha256(chunk if digest_of is None else digest_of).digest()
        headers = {
            "Upload-Offset": str(offset),
            "Content-Digest": f"sha-256=:{base64.b64encode(digest).decode()}:",
            "Content-Type": "application/octet-stream",
        }
        path = f"/v1/uploads/{upload_id}"
        if hasattr(caller, "call"):
            return caller.call("PATCH", path, content=chunk, headers=headers)
        return caller.http.request("PATCH", path, content=chunk, headers=headers)

    def finish(self, caller: Any, upload_id: str, data: bytes) -> Any:
        message = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        send = caller.call if hasattr(caller, "call") else caller.send
        return send("POST", f"/v1/uploads/{upload_id}/finish", message)

    def upload(self, worker: Any, grant: Grant, data: bytes, **changes: Any) -> str:
        """Bring one artifact over and return its sha256."""
        response = self.announce(worker, grant, data, **changes)
        assert response.status_code in (200, 201), response.text
        if response.status_code == 201:
            upload_id = response.json()["upload"]["id"]
            assert self.patch(worker, upload_id, 0, data).status_code == 204
            assert self.finish(worker, upload_id, data).status_code == 200
        return hashlib.sha256(data).hexdigest()

    def blob(self, name: str, data: bytes) -> dict[str, Any]:
        """Bring an input as a person and return it as a job names it."""
        given = {"name": name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        response = self.person.send("POST", "/v1/blobs", given)
        if response.status_code == 201:
            upload_id = response.json()["upload"]["id"]
            assert self.patch(self.person, upload_id, 0, data).status_code == 204
            assert self.finish(self.person, upload_id, data).status_code == 200
        return given

    def complete(self, worker: Any, grant: Grant, final_seq: int, outcome: str = "succeeded", **more: Any) -> Any:
        message = {"epoch": grant.epoch, "outcome": outcome, "final_seq": final_seq, "exit": 0, **more}
        return worker.call("POST", f"/v1/attempts/{grant.id}/complete", message)

    def fail(self, worker: Any, grant: Grant, failure: str, final_seq: int = 0) -> Any:
        error = {"failure": failure, "message": "it broke\nin two lines"}
        return self.complete(worker, grant, final_seq, "failed", error=error)

    def release(self, worker: Any, grant: Grant, reason: str = "stopped", **more: Any) -> Any:
        message = {"epoch": grant.epoch, "reason": reason, **more}
        return worker.call("POST", f"/v1/attempts/{grant.id}/release", message)


@pytest.fixture
def hand(ada: Any) -> Iterator[Hand]:
    """The hand of Ada and of her workers, with an empty queue."""
    hand = Hand(ada)
    hand.drop_queue()
    yield hand
    hand.drop_queue()


@pytest.fixture(scope="session")
def hand_of() -> type[Hand]:
    """How to make a hand, for a person of another coordinator."""
    return Hand


@pytest.fixture
def worker(coordinator: Any, ada: Any) -> Any:
    """A worker of Ada's of its own for this test."""
    return coordinator.worker(ada)


@pytest.fixture
def other_worker(coordinator: Any, ada: Any) -> Any:
    """A second worker of Ada's."""
    return coordinator.worker(ada)
