"""The coordinator's own identity: another signing key without losing a worker, and a folder that was brought back."""

import pytest

from coordinator.__main__ import main
from coordinator.accounts.keys import CoordinatorKeys


def run(capsys, live, *words: str) -> tuple[int, str]:
    """Run a host's command on a coordinator's folder; returns its exit code and all it said."""
    code = main([*words, "--data", str(live.data)])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.fixture
def stage(start_coordinator):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    return live, worker


def test_a_key_is_switched_only_when_every_worker_has_heard_of_it(start_coordinator, stage, capsys):
    live, worker = stage
    first = live.services.keys.thumbprint
    assert "while the coordinator is stopped" in run(capsys, live, "key", "next")[1]
    live.close()
    assert run(capsys, live, "key", "switch") == (
        1,
        "stoker-coordinator: there is no next key; make one with: key next\n",
    )
    assert run(capsys, live, "key", "next")[0] == 0
    assert "waits already" in run(capsys, live, "key", "next")[1]
    code, said = run(capsys, live, "key", "switch")
    assert (code, "have not heard of the next key: worker-" in said) == (1, True)
    again = start_coordinator()
    worker.http, worker.url, worker.nonce = again.workstation().http, again.url, None
    control = worker.connect().control
    assert control.next_coordinator_key is not None
    worker.call("POST", "/v1/heartbeat", {"n": 1, "observed": {"gen": control.gen, "rev": control.rev}})
    again.close()
    code, said = run(capsys, live, "key", "switch")
    assert code == 0, said
    keys = CoordinatorKeys.load(live.data)
    assert keys.thumbprint != first
    assert keys.next is None
    assert (live.data / "coordinator-key-past.pem").stat().st_mode & 0o077 == 0


def test_a_folder_brought_back_whole_can_be_told_as_restored(start_coordinator, stage, capsys):
    live, _ = stage
    live.close()
    assert run(capsys, live, "restored")[0] == 0
    again = start_coordinator()
    assert again.services.generation == 2
    views = again.person("ada@example.org").send("GET", "/v1/workers").json()["items"]
    assert [view["confirm_needed"] for view in views] == [True]


def test_a_second_coordinator_on_one_folder_says_who_holds_it_and_leaves(stage, capsys):
    live, _ = stage
    code, said = run(capsys, live, "serve", "--port", "0")
    assert code == 4
    assert "another coordinator (process" in said
    assert "--data" in said
