"""Two machines with one credential: the newcomer stays outside, the first keeps its job, a person decides."""

import copy
import secrets
from typing import Any

import pytest
from joserfc.jwk import OKPKey

from tests.coordinator.api.test_restore import moved_to
from tests.coordinator.conftest import HOST
from worker_core.wire.codec import decode
from worker_core.wire.ids import new_id
from worker_core.wire.pairing import PairingRequest
from worker_core.wire.problems import Problem
from worker_core.wire.session import KeyChange
from worker_core.wire.work import Heartbeat, HeartbeatAnswer


def refusal(response) -> Problem:
    assert response.headers["content-type"] == "application/problem+json", response.text
    return decode(response.content, Problem)


def copy_of(live, worker):
    """Return a machine with the same key and record, on another boot."""
    twin = live.workstation()
    twin.key, twin.thumbprint, twin.worker_id = worker.key, worker.thumbprint, worker.worker_id
    twin.instance_id = new_id("ins")
    return twin


def beat(worker, n: int, **changes) -> Any:
    response = worker.call("POST", "/v1/heartbeat", Heartbeat(n=n, state="available", **changes))
    assert response.status_code == 200, response.text
    return decode(response.content, HeartbeatAnswer)


def change_key(worker, new: OKPKey, **claims):
    """S6 with a proof by the new key."""
    path = "/v1/worker/key"
    worker.call("POST", "/v1/heartbeat", {"n": secrets.randbelow(1000) + 5000})  # for a fresh nonce
    other = copy.copy(worker)
    other.key = new
    proof = other.proof("POST", path, worker.token, **claims)
    return worker.call("POST", path, KeyChange(proof=proof))


@pytest.fixture
def conflicting(start_coordinator):
    """A coordinator, its person, a worker at work and a copy of it that was just noticed."""
    live = start_coordinator()
    ada = live.person("ada@example.org")
    worker = live.worker(ada)
    twin = copy_of(live, worker)
    stale = {"prev_instance_ids": ("ins_long_ago",), "boot_id": "boot-of-the-copy"}
    assert refusal(twin.try_connect(**stale)).code == "credential-conflict"
    return live, ada, worker, twin, stale


def test_the_copy_stays_outside_and_the_original_works_on_without_offers(conflicting):
    _, ada, worker, twin, stale = conflicting
    answer = beat(worker, 1)
    assert answer.control is not None
    assert answer.control.held == "credential-conflict"
    assert not answer.control.rotate_key
    assert refusal(twin.try_connect(**stale)).action == "ask_person"
    assert worker.connect().session_id == worker.session_id
    view = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert view["state"] == "problem"
    assert view["reasons"][0] == "credential-conflict"
    assert "knows nothing of the present connection" in view["conflict"]


def test_the_accused_may_not_come_back_by_a_restart_that_names_both(conflicting):
    live, _, worker, twin, _ = conflicting
    live.forward(60)
    again = {"prev_instance_ids": (twin.instance_id, worker.instance_id), "boot_id": "boot-of-the-copy"}
    assert refusal(twin.try_connect(instance_id=new_id("ins"), **again)).code == "credential-conflict"
    newer = {"instance_id": new_id("ins"), "prev_instance_ids": (worker.instance_id,), "boot_id": "rebooted"}
    assert worker.try_connect(**newer).status_code == 201, "the original may still reboot"


def test_keep_gives_the_original_a_new_key_and_shuts_the_copy_out(conflicting):
    _, ada, worker, twin, stale = conflicting
    kept = ada.send("POST", f"/v1/workers/{worker.worker_id}/keep")
    assert kept.status_code == 200, kept.text
    assert kept.json()["rekeying"]
    assert beat(worker, 1).control.rotate_key
    assert refusal(twin.try_connect(**stale)).code == "credential-conflict", "until the key is changed"
    fresh = OKPKey.generate_key("Ed25519")
    assert change_key(worker, fresh).status_code == 204
    old_key, worker.key = worker.key, fresh
    answer = beat(worker, 2)
    assert answer.control.held == ""
    assert not answer.control.rotate_key
    assert refusal(twin.try_connect(**stale)).code == "key-replaced"
    view = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert (view["conflict"], view["rekeying"], view["state"]) == (None, False, "available")
    worker.key = old_key
    assert refusal(worker.call("POST", "/v1/heartbeat", {"n": 3})).code == "key-replaced"
    assert worker.call("DELETE", "/v1/worker").status_code == 204, "a dead key unpairs nobody, and may say so"
    assert ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["state"] == "available"


def test_revoke_ends_both(conflicting):
    _, ada, worker, twin, stale = conflicting
    assert ada.send("POST", f"/v1/workers/{worker.worker_id}/revoke").status_code == 200
    assert refusal(twin.try_connect(**stale)).code == "worker-revoked"
    assert refusal(worker.call("POST", "/v1/heartbeat", {"n": 3})).code == "worker-revoked"


def test_only_a_conflict_can_be_kept(coordinator, ada):
    worker = coordinator.worker(ada)
    assert refusal(ada.send("POST", f"/v1/workers/{worker.worker_id}/keep")).code == "wrong-state"


def test_keep_needs_the_password_again(conflicting):
    live, _, worker, _, _ = conflicting
    script = live.person("ada@example.org", scopes=("jobs", "workers"))
    assert refusal(script.send("POST", f"/v1/workers/{worker.worker_id}/keep")).code == "forbidden"


def test_a_copy_on_another_boot_that_knows_the_present_start_is_caught_after_five_minutes(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    worker = live.worker(ada)
    twin = copy_of(live, worker)
    live_copy = {"prev_instance_ids": (worker.instance_id,), "boot_id": "boot-of-the-copy"}
    for n in range(1, 7):
        assert refusal(twin.try_connect(**live_copy)).code == "session-active"
        live.forward(30)
        beat(worker, 2 * n)
        live.forward(29)
        beat(worker, 2 * n + 1)
    assert refusal(twin.try_connect(**live_copy)).code == "credential-conflict"
    assert "kept asking" in ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["conflict"]


def test_two_heartbeats_of_one_number_show_a_copied_machine(coordinator, ada):
    worker = coordinator.worker(ada)
    assert beat(worker, 1).control is not None
    beat(worker, 1)
    assert ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["conflict"] is None
    beat(worker, 1, health={"loop_lag_s": 0.5})
    view = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert "same number" in view["conflict"]


def test_the_machine_that_stays_may_count_on_where_its_copy_was_ahead(coordinator, ada):
    worker = coordinator.worker(ada)
    beat(worker, 5)
    beat(worker, 5, health={"loop_lag_s": 0.5})  # a copy of the running machine, which is then further on
    beat(worker, 6)
    assert ada.send("POST", f"/v1/workers/{worker.worker_id}/keep").status_code == 200
    fresh = OKPKey.generate_key("Ed25519")
    assert change_key(worker, fresh).status_code == 204
    worker.key = fresh
    beat(worker, 6, health={"loop_lag_s": 0.7})
    shown = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert (shown["conflict"], shown["state"]) == (None, "available")


def test_a_coordinators_clock_that_was_set_back_makes_no_alarm(start_coordinator):
    live = start_coordinator()
    live.forward(30 * 86400)
    worker = live.worker(live.person("ada@example.org"))
    live.close()
    (live.data / "clock.json").unlink()
    live = start_coordinator()
    moved_to(worker, live)
    for number in range(1, 4):
        start = {"instance_id": f"ins_{number}", "boot_id": f"boot-{number}", "session_seq": number}
        answer = worker.try_connect(prev_instance_ids=(worker.instance_id,), **start)
        if answer.status_code == 409:
            assert refusal(answer).code == "session-active", "the boot before may be alive, for 45 s and no longer"
            live.forward(50)
            answer = worker.try_connect(prev_instance_ids=(worker.instance_id,), **start)
        assert answer.status_code == 201, answer.text
        worker.instance_id = start["instance_id"]


def test_a_replaced_start_that_asks_for_a_token_much_later_is_an_alarm(start_coordinator):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    twin = copy_of(live, worker)
    twin.connect(prev_instance_ids=(worker.instance_id,))
    path = f"/v1/sessions/{worker.session_id}/token"
    assert refusal(worker.send("POST", path)).code == "session-replaced"
    live.forward(60)
    assert refusal(worker.send("POST", path)).code == "credential-conflict"


# changing the key


def test_a_key_change_may_be_repeated_with_the_new_key(coordinator, ada):
    worker = coordinator.worker(ada)
    fresh = OKPKey.generate_key("Ed25519")
    assert change_key(worker, fresh).status_code == 204
    worker.key = fresh
    assert change_key(worker, fresh).status_code == 204
    assert worker.send("POST", f"/v1/sessions/{worker.session_id}/token").status_code == 200
    assert worker.connect().session_id == worker.session_id


def test_a_key_change_needs_a_proof_by_the_new_key_for_this_token(coordinator, ada):
    worker, other = coordinator.worker(ada), coordinator.worker(ada)
    fresh = OKPKey.generate_key("Ed25519")
    assert refusal(change_key(worker, fresh, ath="something else")).code == "bad-proof"
    assert refusal(change_key(worker, fresh, htu=coordinator.url + "/v1/poll")).code == "bad-proof"
    assert refusal(change_key(worker, other.key)).code == "wrong-state", "a key of another worker"
    assert refusal(worker.call("POST", "/v1/worker/key", KeyChange(proof="x"))).code == "bad-proof"


def test_a_key_that_was_a_workers_pairs_no_other(coordinator, ada):
    worker = coordinator.worker(ada)
    old, fresh = worker.key, OKPKey.generate_key("Ed25519")
    assert change_key(worker, fresh).status_code == 204
    stranger = coordinator.workstation()
    stranger.key = old
    request = PairingRequest(email="ada@example.org", host=HOST, worker_version="0.1.0")
    assert refusal(stranger.send("POST", "/v1/pairings", request)).code == "wrong-state"


def test_a_conflict_is_not_ended_by_changing_the_key_unasked(conflicting):
    _, ada, worker, _, _ = conflicting
    assert refusal(change_key(worker, OKPKey.generate_key("Ed25519"))).code == "credential-conflict"
    assert ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["conflict"]


def test_a_dead_key_cannot_be_a_workers_again(coordinator, ada):
    worker = coordinator.worker(ada)
    first, fresh = worker.key, OKPKey.generate_key("Ed25519")
    assert change_key(worker, fresh).status_code == 204
    worker.key = fresh
    assert refusal(change_key(worker, first)).code == "wrong-state"


def test_the_history_tells_who_did_what(conflicting):
    _, ada, worker, _, _ = conflicting
    ada.send("POST", f"/v1/workers/{worker.worker_id}/keep")
    ada.send("POST", f"/v1/workers/{worker.worker_id}/renew")
    change_key(worker, OKPKey.generate_key("Ed25519"))
    ada.send("POST", f"/v1/workers/{worker.worker_id}/revoke", {"reason": "sold"})
    entries = ada.send("GET", "/v1/audit").json()["items"]
    told = [(entry["act"], entry["actor"]) for entry in entries]
    assert told == [
        ("revoked", "ada@example.org"),
        ("key changed", "the workstation"),
        ("renewed", "ada@example.org"),
        ("kept", "ada@example.org"),
        ("conflict", "the coordinator"),
        ("approved", "ada@example.org"),
    ]
    assert entries[0]["detail"] == "sold"
    page = ada.send("GET", "/v1/audit?limit=2").json()
    rest = ada.send("GET", f"/v1/audit?after={page['next']}").json()["items"]
    assert [entry["act"] for entry in rest] == ["renewed", "kept", "conflict", "approved"]


def test_nobody_reads_or_decides_for_another_account(conflicting):
    live, _, worker, _, _ = conflicting
    live.account("eve@example.org")
    eve = live.person("eve@example.org")
    assert eve.send("GET", "/v1/audit").json()["items"] == []
    assert eve.send("POST", f"/v1/workers/{worker.worker_id}/keep").status_code == 404
    assert eve.send("POST", "/v1/workers/confirm").json() == {"confirmed": []}
