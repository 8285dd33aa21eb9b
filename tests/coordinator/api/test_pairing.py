"""Pairing over HTTP: the code binds a key, an e-mail and a person's decision; every limit holds."""

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest

from worker_core.wire.codec import decode
from worker_core.wire.pairing import PairingApproved, PairingFound, normalise_user_code
from worker_core.wire.problems import Problem

DAY_S = 86400.0


def refusal(response) -> Problem:
    assert response.headers["content-type"] == "application/problem+json", response.text
    return decode(response.content, Problem)


def look_up(person, code: str):
    return person.send("POST", "/v1/console/pairings/lookup", {"user_code": code})


def test_a_workstation_pairs_and_pins_the_coordinators_key(coordinator, ada):
    station = coordinator.workstation()
    approved = station.pair(ada, "first", authorization_s=7 * DAY_S, extend_while_healthy=True)
    assert approved.worker_name == "first"
    assert approved.account == approved.approved_by == "ada@example.org"
    assert 0 <= 7 * DAY_S - approved.authorization.remaining_s < 10
    assert approved.authorization.extend_while_healthy
    assert approved.coordinator_jwks == coordinator.services.keys.jwks()


def test_the_codes_and_words_have_their_form(coordinator):
    started = coordinator.workstation().start_pairing("ada@example.org")
    assert len(normalise_user_code(started.user_code)) == 8
    assert started.user_code[4] == "-"
    assert len(started.fingerprint.split()) == 4
    assert started.verification_uri == f"{coordinator.url}/pair"
    assert started.expires_in == 900


def test_an_unknown_email_is_answered_alike(coordinator):
    known = coordinator.workstation().start_pairing("ada@example.org")
    unknown = coordinator.workstation().start_pairing("nobody@example.org")
    assert {len(known.user_code), len(known.device_code)} == {len(unknown.user_code), len(unknown.device_code)}
    assert known.verification_uri == unknown.verification_uri


def test_a_code_is_read_in_any_case_and_grouping(coordinator, ada):
    started = coordinator.workstation().start_pairing(ada.email)
    typed = f" {started.user_code[:4].lower()} {started.user_code[5:].lower()}"
    found = decode(look_up(ada, typed).content, PairingFound)
    assert found.fingerprint == started.fingerprint
    assert found.host.hostname == "bench-1"
    assert found.same_network
    assert found.age_s < 10


def test_a_code_of_another_account_is_not_found(coordinator, ada):
    coordinator.account("eve@example.org")
    eve = coordinator.person("eve@example.org")
    started = coordinator.workstation().start_pairing(ada.email)
    assert refusal(look_up(eve, started.user_code)).code == "code-not-found"
    found = look_up(ada, started.user_code).json()
    approval = {"name": "x", "job_scopes": [], "authorization_s": 3600, "fingerprint_confirmed": True}
    stolen = eve.send("POST", f"/v1/console/pairings/{found['pairing_id']}/approve", approval)
    assert stolen.status_code == 404


def test_foreign_letters_are_named_and_not_stripped(ada):
    answer = refusal(look_up(ada, "BCDF-GHJA"))
    assert answer.code == "invalid-request"
    assert "A" in answer.detail


def test_wrong_codes_lock_the_person_for_a_while(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    started = live.workstation().start_pairing(ada.email)
    for left in ("4 tries left", "3 tries left", "2 tries left", "1 try left", "the last try for a while"):
        answer = refusal(look_up(ada, "BBBB-BBBB"))
        assert answer.code == "code-not-found"
        assert left in answer.detail
    locked = look_up(ada, started.user_code)
    assert refusal(locked).code == "rate-limited"
    assert 0 < int(locked.headers["retry-after"]) <= 900
    live.forward(901)
    assert refusal(look_up(ada, started.user_code)).code == "code-not-found"


def test_the_lock_lasts_15_minutes_from_the_fifth_wrong_code(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    look_up(ada, "BBBB-BBBB")
    live.forward(890)
    for _ in range(4):
        look_up(ada, "BBBB-BBBB")
    live.forward(890)
    locked = look_up(ada, "BBBB-BBBB")
    assert refusal(locked).code == "rate-limited"
    assert int(locked.headers["retry-after"]) <= 10
    live.forward(11)
    assert "4 tries left" in refusal(look_up(ada, "BBBB-BBBB")).detail


def test_many_wrong_codes_at_once_gain_no_extra_try(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    with ThreadPoolExecutor(12) as pool:
        answers = [refusal(answer).code for answer in pool.map(lambda _: look_up(ada, "BBBB-BBBB"), range(24))]
    assert answers.count("code-not-found") == 5
    assert answers.count("rate-limited") == 19


def test_codes_that_are_found_are_no_wrong_tries(coordinator, ada):
    for _ in range(3):
        started = coordinator.workstation().start_pairing(ada.email)
        assert [look_up(ada, started.user_code).status_code for _ in range(4)] == [200] * 4


def test_too_many_wrong_codes_of_everybody_switch_pairing_off(start_coordinator):
    live = start_coordinator(wrong_codes_global_hour=3)
    ada = live.person("ada@example.org")
    for _ in range(3):
        look_up(ada, "BBBB-BBBB")
    request = {"email": ada.email, "host": {"os": "L", "arch": "x", "hostname": "h"}, "worker_version": "0.1.0"}
    assert refusal(live.workstation().send("POST", "/v1/pairings", request)).code == "rate-limited"


def test_a_code_dies_after_ten_lookups(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    station = live.workstation()
    started = station.start_pairing(ada.email)
    answers = [look_up(ada, started.user_code).status_code for _ in range(11)]
    assert answers == [200] * 10 + [404]
    assert refusal(station.poll_pairing(started)).error == "expired_token"


def test_an_expired_code_is_dead_on_both_sides(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    station = live.workstation()
    started = station.start_pairing(ada.email)
    pairing = look_up(ada, started.user_code).json()["pairing_id"]
    live.forward(901)
    assert refusal(look_up(ada, started.user_code)).code == "code-not-found"
    approval = {"name": "late", "job_scopes": ["any"], "authorization_s": 3600, "fingerprint_confirmed": True}
    assert refusal(ada.send("POST", f"/v1/console/pairings/{pairing}/approve", approval)).code == "pairing-expired"
    assert refusal(station.poll_pairing(started)).error == "expired_token"


def test_polling_keeps_its_interval_and_a_fast_client_slows_down_for_good(start_coordinator):
    live = start_coordinator()
    station = live.workstation()
    started = station.start_pairing("ada@example.org")
    assert refusal(station.poll_pairing(started)).error == "authorization_pending"
    slower = refusal(station.poll_pairing(started))
    assert (slower.error, slower.interval) == ("slow_down", 10.0)
    live.forward(6)
    assert refusal(station.poll_pairing(started)).interval == 15.0
    # The limiter counts from the poll it accepted, so the client is heard again at last.
    live.forward(9)
    assert refusal(station.poll_pairing(started)).error == "authorization_pending"


def test_a_denied_pairing_says_so_once_and_for_all(coordinator, ada):
    station = coordinator.workstation()
    started = station.start_pairing(ada.email)
    pairing = look_up(ada, started.user_code).json()["pairing_id"]
    assert ada.send("POST", f"/v1/console/pairings/{pairing}/deny").status_code == 204
    assert refusal(station.poll_pairing(started)).error == "access_denied"
    assert refusal(ada.send("POST", f"/v1/console/pairings/{pairing}/deny")).code == "already-decided"


def test_a_cancelled_pairing_is_gone(coordinator, ada):
    station = coordinator.workstation()
    started = station.start_pairing(ada.email)
    assert station.send("DELETE", f"/v1/pairings/{started.pairing_id}").status_code == 204
    assert refusal(look_up(ada, started.user_code)).code == "code-not-found"
    assert station.send("DELETE", f"/v1/pairings/{started.pairing_id}").status_code == 404


def test_only_its_own_key_may_cancel_or_poll_a_pairing(coordinator, ada):
    station, other = coordinator.workstation(), coordinator.workstation()
    started = station.start_pairing(ada.email)
    assert other.send("DELETE", f"/v1/pairings/{started.pairing_id}").status_code == 404
    assert refusal(other.poll_pairing(started)).error == "expired_token"
    assert refusal(station.poll_pairing(started)).error == "authorization_pending"


def test_a_second_request_of_one_key_cancels_the_first(coordinator, ada):
    station = coordinator.workstation()
    first = station.start_pairing(ada.email)
    second = station.start_pairing(ada.email)
    assert refusal(look_up(ada, first.user_code)).code == "code-not-found"
    assert look_up(ada, second.user_code).status_code == 200


def test_an_approval_may_be_fetched_again_until_the_first_connection(coordinator, ada):
    station = coordinator.workstation()
    started = station.start_pairing(ada.email)
    assert ada.approve(started.user_code, "again").status_code == 200
    answers = [decode(station.poll_pairing(started).content, PairingApproved) for _ in range(3)]
    assert len({answer.worker_id for answer in answers}) == 1
    station.worker_id = answers[0].worker_id
    station.connect()
    assert refusal(station.poll_pairing(started)).error == "expired_token"


def test_two_approvals_make_one_worker(coordinator, ada):
    started = coordinator.workstation().start_pairing(ada.email)
    pairing = look_up(ada, started.user_code).json()["pairing_id"]

    def approve(name: str) -> int:
        approval = {"name": name, "job_scopes": ["any"], "authorization_s": 3600, "fingerprint_confirmed": True}
        return ada.send("POST", f"/v1/console/pairings/{pairing}/approve", approval).status_code

    with ThreadPoolExecutor(4) as pool:
        answers = sorted(pool.map(approve, [f"twin-{n}" for n in range(4)]))
    assert answers == [200, 409, 409, 409]


def test_the_same_approval_sent_again_answers_the_same(coordinator, ada):
    started = coordinator.workstation().start_pairing(ada.email)
    pairing = look_up(ada, started.user_code).json()["pairing_id"]
    approval = {"name": "once", "job_scopes": ["any"], "authorization_s": 3600, "fingerprint_confirmed": True}
    path = f"/v1/console/pairings/{pairing}/approve"
    first = ada.send("POST", path, approval, Idempotency_Key="k1")
    assert first.status_code == 200
    assert ada.send("POST", path, approval, Idempotency_Key="k1").json()["id"] == first.json()["id"]
    other = ada.send("POST", path, {**approval, "name": "twice"}, Idempotency_Key="k1")
    assert refusal(other).code == "idempotency-mismatch"


def test_a_name_is_taken_once_and_the_words_must_be_compared(coordinator, ada):
    station = coordinator.workstation()
    station.pair(ada, "taken")
    started = coordinator.workstation().start_pairing(ada.email)
    assert refusal(ada.approve(started.user_code, "taken")).code == "name-taken"
    unread = ada.approve(started.user_code, "free", fingerprint_confirmed=False)
    assert refusal(unread).code == "invalid-request"
    assert ada.approve(started.user_code, "free").status_code == 200


def test_pending_pairings_of_one_place_are_few_and_do_not_block_another_email(start_coordinator):
    live = start_coordinator(pending_per_email_network=3)
    for _ in range(3):
        live.workstation().start_pairing("ada@example.org")
    request = {"email": "ada@example.org", "host": {"os": "L", "arch": "x", "hostname": "h"}, "worker_version": "1"}
    assert refusal(live.workstation().send("POST", "/v1/pairings", request)).code == "rate-limited"
    live.workstation().start_pairing("bob@example.org")
    live.forward(901)
    live.workstation().start_pairing("ada@example.org")


def test_pairings_of_one_address_are_limited_by_the_hour(start_coordinator):
    live = start_coordinator(pairings_per_ip_hour=4)
    for number in range(4):
        live.workstation().start_pairing(f"person-{number}@example.org")
    request = {"email": "late@example.org", "host": {"os": "L", "arch": "x", "hostname": "h"}, "worker_version": "1"}
    refused = live.workstation().send("POST", "/v1/pairings", request)
    assert refusal(refused).code == "rate-limited"
    live.forward(3601)
    live.workstation().start_pairing("late@example.org")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"email": "x"}', b'{"email": "no-at", "host": {}, "worker_version": "1"}', b"\xff\xfe"],
)
def test_a_malformed_request_is_refused_by_name(coordinator, body):
    assert refusal(coordinator.workstation().send("POST", "/v1/pairings", content=body)).code == "invalid-request"


def test_approving_needs_the_scope_approve(coordinator):
    script = coordinator.person("ada@example.org", ("jobs", "workers"))
    assert refusal(look_up(script, "BBBB-BBBB")).code == "forbidden"


def test_guessing_never_finds_a_code(start_coordinator):
    live = start_coordinator(wrong_codes=10_000, wrong_codes_per_account_hour=10_000, wrong_codes_per_ip_hour=10_000)
    ada = live.person("ada@example.org")
    live.workstation().start_pairing(ada.email)
    alphabet = "BCDFGHJKLMNPQRSTVWXZ"
    answers = {look_up(ada, "".join(secrets.choice(alphabet) for _ in range(8))).status_code for _ in range(200)}
    assert answers == {404}


def test_a_hard_cap_beyond_all_calendars_is_refused(coordinator, ada):
    started = coordinator.workstation().start_pairing(ada.email)
    refused = ada.approve(started.user_code, "everlasting", hard_cap_s=1e300)
    assert (refused.status_code, refusal(refused).code) == (400, "invalid-request")
    assert ada.approve(started.user_code, "everlasting", hard_cap_s=100 * 365 * 86400.0).status_code == 200
