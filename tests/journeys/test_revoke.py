"""Revoked in mid-job: the job is gone at once, and the worker forgets its key."""

import time

import psutil

from tests.journeys.conftest import EMAIL, Stack, Worker, eventually, paced_spec

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


def test_a_revoked_worker_ends_its_job_and_forgets_its_key(stack: Stack) -> None:
    worker, job_id = _training_worker(stack)
    below = worker.job_processes()
    assert below
    assert worker.core.paths.credential_file.exists()

    began = time.monotonic()
    assert stack.client.revoke(stack.client.worker("box").id).state == "revoked"
    eventually(lambda: _all_gone(below), "the job's tree is gone", longest_s=3 * GONE_S)
    assert time.monotonic() - began < 3 * GONE_S

    status = worker.wait(lambda status: status.state == "revoked" and status.job is None, "the worker knows")
    assert EMAIL in status.detail
    eventually(lambda: not worker.core.paths.credential_file.exists(), "the credential is gone")
    files = worker.core.paths.workspaces.rglob
    eventually(lambda: not [path for path in files("*") if path.is_file()], "the workspace is gone")

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
