"""What a person sees of and does with a worker, over HTTP."""

import pytest

from worker_core.wire.codec import decode
from worker_core.wire.problems import Problem


def refusal(response) -> Problem:
    return decode(response.content, Problem)


@pytest.fixture
def worker(coordinator, ada):
    return coordinator.worker(ada)


def act(person, worker, word, message=None):
    return person.send("POST", f"/v1/workers/{worker.worker_id}/{word}", message)


def test_the_list_shows_what_the_worker_is(ada, worker):
    views = {view["id"]: view for view in ada.send("GET", "/v1/workers").json()["items"]}
    view = views[worker.worker_id]
    assert view["state"] == "available"
    assert view["host"]["hostname"] == "bench-1"
    assert view["credential_store"] == "file"
    assert view["job_scopes"] == ["any"]
    assert view["contact_age_s"] < 10


def test_a_worker_that_never_connected_is_offline(coordinator, ada):
    station = coordinator.workstation()
    station.pair(ada, "silent")
    view = ada.send("GET", "/v1/workers/silent").json()
    assert (view["state"], view["contact_age_s"]) == ("offline", None)


def test_a_worker_without_contact_goes_offline_after_45_seconds(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    worker = live.worker(ada)
    live.forward(40)
    assert ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["state"] == "available"
    live.forward(10)
    view = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert view["state"] == "offline"
    assert 50 <= view["contact_age_s"] < 60


@pytest.mark.parametrize(("word", "mode"), [("drain", "drain"), ("stop", "stop"), ("resume", "run")])
def test_a_wanted_mode_is_set_with_who_and_why(ada, worker, word, mode):
    act(ada, worker, "drain" if mode == "run" else "resume")
    before = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    view = act(ada, worker, word, {"reason": "game night"}).json()
    assert (view["console_mode"], view["mode_by"]) == (mode, "ada@example.org")
    assert view["rev"] == before["rev"] + (before["console_mode"] != mode)
    assert not view["mode_seen"]
    control = worker.connect().control
    assert (control.console_mode, control.rev) == (mode, view["rev"])


def test_the_same_mode_again_changes_nothing(ada, worker):
    first = act(ada, worker, "drain").json()
    assert act(ada, worker, "drain").json()["rev"] == first["rev"]


def test_a_worker_may_be_named_by_its_name(ada, worker):
    name = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["name"]
    assert ada.send("POST", f"/v1/workers/{name}/drain").json()["id"] == worker.worker_id


def test_an_id_means_its_worker_even_if_another_is_named_like_it(coordinator, ada, worker):
    other = coordinator.workstation()
    other.pair(ada, worker.worker_id)
    assert ada.send("GET", f"/v1/workers/{worker.worker_id}").json()["id"] == worker.worker_id


def test_a_change_needs_the_revision_the_person_saw(ada, worker):
    path = f"/v1/workers/{worker.worker_id}"
    shown = ada.send("GET", path)
    rev = shown.json()["rev"]
    assert shown.headers["etag"] == f'"{rev}"'
    changed = ada.send("PATCH", path, {"name": f"new-{rev}-{worker.worker_id[-6:]}"}, If_Match=f'"{rev}"')
    assert changed.json()["rev"] == rev + 1
    late = ada.send("PATCH", path, {"extend_while_healthy": True}, If_Match=f'"{rev}"')
    assert refusal(late).code == "changed-meanwhile"
    for unread in (b"", b"x", b"\xb2", b"9" * 30):
        answer = ada.http.patch(path, content=b'{"name": "x"}', headers=[(b"If-Match", unread)])
        assert refusal(answer).code == "invalid-request"


def test_scopes_are_changed_and_checked(ada, worker):
    path = f"/v1/workers/{worker.worker_id}"
    rev = str(ada.send("GET", path).json()["rev"])
    kinds = {"job_scopes": ["rl-session", "any", "any"]}
    changed = ada.send("PATCH", path, kinds, If_Match=rev).json()
    assert changed["job_scopes"] == ["any", "rl-session"]
    endless = {"job_scopes": ["x" * 65]}
    assert refusal(ada.send("PATCH", path, endless, If_Match=str(changed["rev"]))).code == "invalid-request"


def test_a_renewal_takes_another_length(ada, worker):
    view = act(ada, worker, "renew", {"authorization_s": 86400}).json()
    assert view["authorization"]["remaining_s"] == pytest.approx(86400, abs=10)
    assert refusal(act(ada, worker, "renew", {"authorization_s": 1e9})).code == "invalid-request"


def test_the_workers_of_others_do_not_exist(coordinator, worker):
    coordinator.account("mallory@example.org")
    mallory = coordinator.person("mallory@example.org")
    assert mallory.send("GET", "/v1/workers").json()["items"] == []
    path = f"/v1/workers/{worker.worker_id}"
    answers = [
        mallory.send("GET", path),
        mallory.send("PATCH", path, {"name": "mine"}, If_Match="1"),
        mallory.send("DELETE", path),
        *(mallory.send("POST", f"{path}/{word}") for word in ("drain", "stop", "resume", "renew", "revoke")),
    ]
    assert {answer.status_code for answer in answers} == {404}


def test_giving_a_right_needs_the_scope_approve_and_taking_it_away_does_not(coordinator, worker):
    script = coordinator.person("ada@example.org", ("workers",))
    assert act(script, worker, "drain").status_code == 200
    assert refusal(act(script, worker, "renew")).code == "forbidden"
    assert act(script, worker, "revoke").status_code == 200
    jobs_only = coordinator.person("ada@example.org", ("jobs",))
    assert refusal(jobs_only.send("GET", "/v1/workers")).code == "forbidden"
