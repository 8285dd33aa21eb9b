"""Connections: one instance speaks for a worker, tokens age, revocation ends everything at once."""

import pytest
from joserfc import jws
from joserfc.jwk import OKPKey
from sqlalchemy import select

from coordinator.accounts.housekeeping import forget_old_rows
from coordinator.accounts.keys import CoordinatorKeys
from coordinator.storage.schema import session
from worker_core.wire.codec import decode
from worker_core.wire.ids import new_id
from worker_core.wire.problems import Problem
from worker_core.wire.session import TokenIssued
from worker_core.wire.signed import Revocation

DAY_S = 86400.0

WORKER_ENDPOINTS = [
    ("POST", "/v1/sessions"),
    ("POST", "/v1/sessions/{session}/token"),
    ("DELETE", "/v1/sessions/{session}"),
    ("POST", "/v1/authorization/extend"),
    ("POST", "/v1/poll"),
    ("POST", "/v1/heartbeat"),
    ("POST", "/v1/attempts/att_0/accept"),
    ("POST", "/v1/attempts/att_0/decline"),
    ("POST", "/v1/attempts/att_0/events"),
    ("POST", "/v1/attempts/att_0/artifacts"),
    ("POST", "/v1/attempts/att_0/complete"),
    ("POST", "/v1/attempts/att_0/release"),
    ("GET", "/v1/attempts/att_0/inputs/" + "0" * 64),
    ("HEAD", "/v1/uploads/upl_0"),
    ("PATCH", "/v1/uploads/upl_0"),
    ("POST", "/v1/uploads/upl_0/finish"),
]


def refusal(response) -> Problem:
    return decode(response.content, Problem)


def extend(worker, **health):
    return worker.call("POST", "/v1/authorization/extend", {"health": health})


def test_a_connection_brings_token_control_and_parameters(coordinator, ada):
    worker = coordinator.worker(ada)
    started = worker.connect()
    assert started.control.console_mode == "run"
    assert started.params == coordinator.settings.worker
    assert started.token_ttl == 600
    assert extend(worker).status_code == 200


def test_the_same_instance_gets_the_same_connection(coordinator, ada):
    worker = coordinator.worker(ada)
    first = worker.session_id
    assert worker.connect().session_id == first


def test_a_restart_on_the_same_boot_takes_over_at_once(coordinator, ada):
    worker = coordinator.worker(ada)
    old_token, old_instance = worker.token, worker.instance_id
    fresh = worker.connect(instance_id=new_id("ins"), prev_instance_ids=(old_instance,), session_seq=2)
    assert fresh.session_seq == 2
    assert refusal(worker.send("POST", "/v1/authorization/extend", {}, token=old_token)).code == "session-replaced"


def test_another_boot_waits_until_the_first_has_been_silent(start_coordinator):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    newer = {"instance_id": new_id("ins"), "prev_instance_ids": (worker.instance_id,), "boot_id": "boot-2"}
    early = worker.try_connect(**newer)
    assert refusal(early).code == "session-active"
    assert 0 < int(early.headers["retry-after"]) <= 45
    live.forward(46)
    assert worker.try_connect(**newer).status_code == 201


def test_a_start_that_knows_nothing_of_the_present_one_is_a_copy(start_coordinator):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    assert refusal(worker.try_connect(instance_id=new_id("ins"))).code == "credential-conflict"


def test_after_a_goodbye_another_boot_connects_at_once(coordinator, ada):
    worker = coordinator.worker(ada)
    assert worker.call("DELETE", f"/v1/sessions/{worker.session_id}", {"reason": "quit"}).status_code == 204
    shown = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert shown["state"] == "offline"
    assert refusal(extend(worker)).code == "session-ended"
    newer = {"instance_id": new_id("ins"), "prev_instance_ids": (worker.instance_id,), "boot_id": "boot-9"}
    assert worker.try_connect(**newer).status_code == 201


def test_a_token_ages_and_a_fresh_one_overlaps(start_coordinator):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    old = worker.token
    path = f"/v1/sessions/{worker.session_id}/token"
    fresh = decode(worker.send("POST", path).content, TokenIssued)
    assert worker.send("POST", "/v1/authorization/extend", {}, token=old).status_code == 200
    live.forward(61)
    assert refusal(worker.send("POST", "/v1/authorization/extend", {}, token=old)).code == "token-expired"
    assert worker.send("POST", "/v1/authorization/extend", {}, token=fresh.token).status_code == 200
    live.forward(600)
    assert refusal(worker.send("POST", "/v1/authorization/extend", {}, token=fresh.token)).code == "token-expired"
    assert worker.send("POST", path).status_code == 200


def test_a_token_of_another_worker_is_worth_nothing(coordinator, ada):
    one, two = coordinator.worker(ada), coordinator.worker(ada)
    assert refusal(two.send("POST", "/v1/authorization/extend", {}, token=one.token)).code == "token-expired"


def test_an_unknown_key_is_told_to_ask_a_person(coordinator):
    station = coordinator.workstation()
    answer = refusal(station.try_connect(worker_id="wrk_0"))
    assert (answer.code, answer.action) == ("worker-unknown", "ask_person")


def test_an_old_version_is_told_to_upgrade(start_coordinator):
    live = start_coordinator(min_worker_version="0.2.0")
    station = live.workstation()
    station.pair(live.person("ada@example.org"), "old")
    assert refusal(station.try_connect()).code == "upgrade-required"
    assert station.try_connect(version="0.10.0").status_code == 201


def test_a_restart_of_the_coordinator_keeps_workers_tokens_and_contacts(start_coordinator):
    live = start_coordinator("kept")
    ada = live.person("ada@example.org")
    worker = live.worker(ada)
    live.close()
    again = start_coordinator("kept")
    worker.http = again.workstation().http
    worker.url = again.url
    assert extend(worker).status_code == 200
    views = again.person("ada@example.org").send("GET", "/v1/workers").json()["items"]
    assert [view["id"] for view in views] == [worker.worker_id]
    assert views[0]["contact_age_s"] < 10


# authorization


def test_an_authorization_extends_itself_late_and_while_healthy(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    worker = live.worker(ada, authorization_s=9 * DAY_S, extend_while_healthy=True)
    early = extend(worker).json()
    assert (early["extended"], early["reasons"]) == (False, ["it is not due yet"])
    live.forward(6.5 * DAY_S)
    worker.connect()
    extended = extend(worker).json()
    assert extended["extended"]
    assert extended["authorization"]["remaining_s"] == pytest.approx(9 * DAY_S, abs=30)


def test_it_stays_as_it_is_when_the_person_did_not_wish_it(start_coordinator):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"), authorization_s=DAY_S)
    live.forward(0.9 * DAY_S)
    worker.connect()
    assert extend(worker).json()["reasons"] == ["extending while healthy is off"]


def test_a_full_disk_is_no_health(start_coordinator):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"), authorization_s=DAY_S, extend_while_healthy=True)
    live.forward(0.9 * DAY_S)
    worker.connect()
    assert "4% of its disk" in extend(worker, disk_free_share=0.04).json()["reasons"][0]


def test_it_never_extends_past_the_hard_cap_and_the_person_sees_the_wish(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    worker = live.worker(ada, authorization_s=DAY_S, extend_while_healthy=True, hard_cap_s=1.5 * DAY_S)
    live.forward(0.9 * DAY_S)
    worker.connect()
    assert extend(worker).json()["authorization"]["remaining_s"] == pytest.approx(0.6 * DAY_S, abs=30)
    live.forward(0.5 * DAY_S)
    worker.connect()
    assert refusal(extend(worker)).code == "hard-cap-reached"
    path = f"/v1/workers/{worker.worker_id}"
    assert ada.send("GET", path).json()["reasons"] == ["asks-for-renewal"]
    ada.send("POST", f"{path}/renew")
    assert ada.send("GET", path).json()["reasons"] == []


def test_it_never_extends_itself_after_its_end_but_a_person_may_renew(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    worker = live.worker(ada, authorization_s=DAY_S, extend_while_healthy=True)
    live.forward(1.1 * DAY_S)
    worker.connect()
    assert extend(worker).json()["reasons"] == ["it has expired; a person must renew it"]
    assert ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["state"] == "expired"
    renewed = ada.send("POST", f"/v1/workers/{worker.worker_id}/renew").json()
    assert renewed["authorization"]["remaining_s"] == pytest.approx(DAY_S, abs=30)
    assert renewed["state"] == "available"


# revocation


@pytest.fixture(scope="module")
def revoked(coordinator, ada):
    worker = coordinator.worker(ada)
    worker.call("POST", "/v1/authorization/extend", {})
    answer = ada.send("POST", f"/v1/workers/{worker.worker_id}/revoke", {"reason": "sold"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["state"] == "revoked"
    return worker


@pytest.mark.parametrize(("method", "path"), WORKER_ENDPOINTS, ids=[path for _, path in WORKER_ENDPOINTS])
def test_a_revoked_worker_gets_a_401_everywhere(revoked, method, path):
    response = revoked.call(method, path.replace("{session}", revoked.session_id), {})
    assert response.status_code == 401
    if method != "HEAD":
        assert (refusal(response).code, refusal(response).action) == ("worker-revoked", "wipe")


def test_the_revocation_is_signed_for_this_worker_with_the_pinned_key(coordinator, revoked):
    signed = refusal(revoked.try_connect()).signed or ""
    pinned = OKPKey.import_key(revoked.approved.coordinator_jwks["keys"][0])
    told = decode(jws.deserialize_compact(signed, pinned, algorithms=["Ed25519"]).payload, Revocation)
    assert (told.worker_id, told.thumbprint) == (revoked.worker_id, revoked.thumbprint)
    assert (told.by, told.reason, told.gen) == ("ada@example.org", "sold", 1)


def test_the_revocation_stands_in_the_log_outside_the_database(coordinator, revoked):
    lines = (coordinator.data / "revocations.log").read_bytes().splitlines()
    assert any(decode(line, Revocation).worker_id == revoked.worker_id for line in lines)


def test_a_revoked_worker_cannot_be_changed_any_more(ada, revoked):
    for word in ("drain", "stop", "resume", "renew"):
        assert refusal(ada.send("POST", f"/v1/workers/{revoked.worker_id}/{word}")).code == "wrong-state"
    assert ada.send("POST", f"/v1/workers/{revoked.worker_id}/revoke").status_code == 200


def test_a_removed_worker_still_hears_of_its_revocation(coordinator, ada):
    worker = coordinator.worker(ada)
    assert refusal(ada.send("DELETE", f"/v1/workers/{worker.worker_id}")).code == "wrong-state"
    ada.send("POST", f"/v1/workers/{worker.worker_id}/revoke")
    assert ada.send("DELETE", f"/v1/workers/{worker.worker_id}").status_code == 204
    assert ada.send("GET", f"/v1/workers/{worker.worker_id}").status_code == 404
    assert refusal(worker.try_connect()).signed


def test_a_worker_unpairs_itself_and_may_say_so_twice(coordinator, ada):
    worker = coordinator.worker(ada)
    assert worker.call("DELETE", "/v1/worker").status_code == 204
    assert worker.call("DELETE", "/v1/worker").status_code == 204
    assert refusal(worker.try_connect()).code == "worker-revoked"
    assert ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["state"] == "revoked"


def test_an_unpairing_of_nobody_is_done_already(coordinator):
    station = coordinator.workstation()
    assert station.send("DELETE", "/v1/worker", token="none").status_code == 204


def test_the_name_of_a_revoked_worker_is_free_again(coordinator, ada):
    station = coordinator.workstation()
    station.pair(ada, "phoenix")
    ada.send("POST", f"/v1/workers/{station.worker_id}/revoke")
    reborn = coordinator.workstation()
    reborn.pair(ada, "phoenix")
    assert ada.send("GET", "/v1/workers/phoenix").json()["id"] == reborn.worker_id


def test_another_coordinators_key_signs_something_else(tmp_path):
    keys = CoordinatorKeys.load(tmp_path)
    assert CoordinatorKeys.load(tmp_path).thumbprint == keys.thumbprint
    assert (tmp_path / "coordinator-key.pem").stat().st_mode & 0o077 == 0


def test_connections_of_long_ago_are_forgotten_and_the_present_one_is_not(start_coordinator):
    live = start_coordinator(token_ttl_s=300_000.0)
    station = live.worker(live.person("ada@example.org"))
    for number in range(2, 5):
        previous, station.instance_id = station.instance_id, f"instance-{number}"
        station.connect(session_seq=number, prev_instance_ids=(previous,))

    def tidied() -> int:
        now = live.services.clock.now()
        live.do(live.services.db.write(lambda conn: forget_old_rows(conn, live.settings, now)))
        return live.do(live.services.db.read(lambda conn: len(conn.execute(select(session)).all())))

    assert tidied() == 4
    live.forward(2 * 86400)
    assert tidied() == 4, "their tokens are still good for an answer"
    live.forward(6 * 86400)
    assert tidied() == 1
    station.connect(session_seq=4)


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/poll", "/v1/heartbeat"])
def test_a_worker_does_not_fill_the_coordinator_with_what_it_says_of_itself(coordinator, ada, path):
    station = coordinator.worker(ada)
    endless = {"n": 1, "reasons": ["r" * 1000] * 300}
    assert station.call("POST", path, endless).status_code == 413
