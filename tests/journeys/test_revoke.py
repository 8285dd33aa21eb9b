"""Revoked in mid-job: the job is gone at once, and the worker forgets its key."""

import json
import re
import time
from pathlib import Path

import httpx
import psutil

from coordinator.api import sessions, uploads, work
from tests.journeys.conftest import EMAIL, Stack, Worker, eventually, paced_spec
from worker_core.link.identity import WorkerKey
from worker_core.link.proof import ProofMaker

GONE_S = 2.0


def _all_gone(processes: list[psutil.Process]) -> bool:
    return not any(_is_alive(process) for process in processes)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _training_worker(stack: Stack) -> tuple[Worker, str]:
    worker = stack.worker("box")
    job_id = stack.submit(paced_spec("endless"))
    stack.wait_training(job_id)
    return worker, job_id


class KeyHolder:
    """Whoever copied a worker's key, as its file and every message of the protocol allow it."""

    def __init__(self, url: str, credential_file: Path) -> None:
        kept = json.loads(credential_file.read_bytes())["secret"]
        self._proofs = ProofMaker(WorkerKey.from_secret(kept))
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=30)

    def answer_of(self, method: str, path: str) -> tuple[int, str]:
        """Return status and problem code of one request; the first answer only brings the nonce."""
        headers = {"Authorization": "DPoP a-token", "Content-Type": "application/json"}
        while True:
            url = str(self._http.base_url.join(path))
            answer = self._http.request(
                method, path, content=b"{}", headers={**headers, "DPoP": self._proofs.make(method, url, "a-token")}
            )
            if self._proofs.nonce is not None:
                return answer.status_code, answer.json()["code"] if answer.content else ""
            self._proofs.nonce = answer.headers["DPoP-Nonce"]

    def close(self) -> None:
        self._http.close()


def _endpoints_of_workers() -> list[tuple[str, str]]:
    """Every endpoint that a worker calls, with something in the place of each id."""
    routes = [route for module in (sessions, work, uploads) for route in module.routes]
    return [
        (min(route.methods or ()), re.sub(r"\{\w+\}", "x1", route.path))
        for route in routes
        # The first belongs to people; the second lets a worker take leave as often as it likes.
        if route.path not in ("/v1/blobs", "/v1/worker")
    ]


def test_a_revoked_worker_ends_its_job_and_forgets_its_key(stack: Stack) -> None:
    worker, job_id = _training_worker(stack)
    below = worker.job_processes()
    assert below
    holder = KeyHolder(stack.coordinator.url, worker.core.paths.credential_file)
    assert holder.answer_of("POST", "/v1/poll")[1] == "token-expired"

    began = time.monotonic()
    assert stack.client.revoke(stack.client.worker("box").id).state == "revoked"
    eventually(lambda: _all_gone(below), "the job's tree is gone", longest_s=3 * GONE_S)
    assert time.monotonic() - began < 3 * GONE_S

    status = worker.wait(lambda status: status.state == "revoked" and status.job is None, "the worker knows")
    assert EMAIL in status.detail
    eventually(lambda: not worker.core.paths.credential_file.exists(), "the credential is gone")
    files = worker.core.paths.workspaces.rglob
    eventually(lambda: not [path for path in files("*") if path.is_file()], "the workspace is gone")

    endpoints = _endpoints_of_workers()
    assert len(endpoints) > 12
    answers = {(method, path): holder.answer_of(method, path) for method, path in endpoints}
    holder.close()
    # An answer to HEAD has no body.
    allowed = {(401, "worker-revoked"), (401, "")}
    assert {asked: answer for asked, answer in answers.items() if answer not in allowed} == {}

    job = stack.client.job(job_id)
    assert job.state == "queued"
    assert [attempt.state for attempt in job.attempts] == ["revoked"]


def test_a_revoked_worker_pairs_anew_only_by_a_new_approval(stack: Stack) -> None:
    worker = stack.worker("box")
    assert stack.command("worker", "box", "revoke", "--json").document["state"] == "revoked"
    worker.wait(lambda status: status.state == "revoked", "the worker knows")
    worker.core.end()
    worker.restart()
    status = worker.wait(lambda status: status.state in ("revoked", "unpaired"), "it stays out")
    assert status.worker is None or status.state == "revoked"


def test_unpairing_here_revokes_the_worker_there(stack: Stack) -> None:
    worker = stack.worker("box")
    assert worker.command("unpair").code == 0
    worker.wait(lambda status: status.state == "unpaired", "it is unpaired")
    assert not worker.core.paths.credential_file.exists()
    assert [item.name for item in stack.client.workers() if item.state != "revoked"] == []
