"""Attempts that run while their coordinator goes back to an older database: they go on, and nothing is told as whole
that is not."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import OKPKey

from tests.coordinator.api.test_restore import backed_up, moved_to, restored


class Site:
    """A coordinator with a backup, a worker, and the hand of both."""

    def __init__(self, live: Any, hand_of: Any) -> None:
        self.live, self.hand_of = live, hand_of
        self.hand = hand_of(live.person("ada@example.org"))
        self.worker = live.worker(self.hand.person)

    def offered(self) -> tuple[str, Any]:
        """Take an offer; return its JWS and the grant."""
        token = next(token for _ in range(4) if (token := self.hand.poll(self.worker).json().get("offer")))
        offer = json.loads(jws.extract_compact(token.encode()).payload)
        accepted = self.hand.accept(self.worker, offer["attempt_id"], offer["epoch"])
        assert accepted.status_code == 200, accepted.text
        grant = SimpleNamespace(id=offer["attempt_id"], epoch=offer["epoch"])
        return token, grant

    def restore(self, backup: Any, start: Any) -> None:
        self.live = restored(self.live, backup, start)
        self.hand = self.hand_of(self.live.person("ada@example.org"))
        moved_to(self.worker, self.live)

    def reconnect(self, grant: Any, token: str, first_seq: int, **changes: Any) -> str:
        held = {
            "attempt_id": grant.id,
            "epoch": grant.epoch,
            "phase": "running",
            "next_seq": first_seq + 5,
            "first_seq": first_seq,
            "offer_jws": token,
            **changes,
        }
        (verdict,) = self.worker.connect(held=[held]).verdicts
        return verdict.verdict


@pytest.fixture
def site(start_coordinator: Any, hand_of: Any) -> Site:
    return Site(start_coordinator(), hand_of)


def test_an_attempt_granted_after_the_backup_is_granted_again_and_delivers(
    site: Site, tmp_path: Any, start_coordinator: Any
) -> None:
    job_id = site.hand.submit()
    backed_up(site.live, tmp_path / "backup.db")
    token, grant = site.offered()
    assert site.hand.events(site.worker, grant, 0, [site.hand.metric(step, loss=1.0) for step in range(7)]).json() == {
        "next_seq": 7
    }
    site.restore(tmp_path / "backup.db", start_coordinator)
    assert site.hand.job(job_id)["state"] == "queued"
    assert site.reconnect(grant, token, first_seq=7) == "continue"
    running = site.hand.job(job_id)
    assert (running["state"], running["attempt"]) == ("running", 1)
    assert site.hand.verdict(site.worker, grant, 2) == "ok"
    assert site.hand.events(site.worker, grant, 7, [site.hand.metric(8, loss=1.0)]).json() == {"next_seq": 8}
    listed = site.hand.person.send("GET", f"/v1/attempts/{grant.id}/events").json()["items"]
    assert [(each["seq"], each["event"]["t"]) for each in listed] == [(0, "gap"), (7, "m")]
    assert site.hand.complete(site.worker, grant, 8).json() == {"recorded": "succeeded"}
    assert site.hand.job(job_id)["state"] == "succeeded"


def test_an_offer_that_was_never_accepted_is_no_grant(site: Site) -> None:
    job_id = site.hand.submit()
    token = next(token for _ in range(4) if (token := site.hand.poll(site.worker).json().get("offer")))
    offer = json.loads(jws.extract_compact(token.encode()).payload)
    site.hand.person.send("POST", f"/v1/workers/{site.worker.worker_id}/drain")
    assert site.reconnect(SimpleNamespace(id=offer["attempt_id"], epoch=offer["epoch"]), token, 0) == "stop"
    assert site.hand.job(job_id)["state"] == "queued", "a drained worker takes no job by saying that it has it"


def test_an_attempt_the_backup_knows_goes_on_where_its_worker_still_has_events(
    site: Site, tmp_path: Any, start_coordinator: Any
) -> None:
    site.hand.submit()
    token, grant = site.offered()
    site.hand.events(site.worker, grant, 0, [site.hand.metric(1, loss=1.0)])
    backed_up(site.live, tmp_path / "backup.db")
    site.hand.events(site.worker, grant, 1, [site.hand.metric(step, loss=1.0) for step in range(2, 6)])
    site.restore(tmp_path / "backup.db", start_coordinator)
    assert site.reconnect(grant, token, first_seq=5) == "continue"
    assert site.hand.events(site.worker, grant, 5, [site.hand.metric(6, loss=1.0)]).json() == {"next_seq": 6}
    assert site.reconnect(grant, token, first_seq=2) == "continue"  # an older word changes nothing
    listed = site.hand.person.send("GET", f"/v1/attempts/{grant.id}/events").json()["items"]
    assert [(each["seq"], each["event"]["t"]) for each in listed] == [(0, "m"), (1, "gap"), (5, "m")]


def test_a_grant_that_we_did_not_sign_or_that_is_not_newer_is_not_believed(
    site: Site, tmp_path: Any, start_coordinator: Any
) -> None:
    job_id = site.hand.submit()
    backed_up(site.live, tmp_path / "backup.db")
    token, grant = site.offered()
    site.restore(tmp_path / "backup.db", start_coordinator)
    payload = jws.extract_compact(token.encode()).payload
    forged = jws.serialize_compact({"alg": "Ed25519"}, payload, OKPKey.generate_key("Ed25519"), algorithms=["Ed25519"])
    for changes in ({"offer_jws": forged}, {"offer_jws": None}, {"epoch": grant.epoch + 1}, {"attempt_id": "att_x"}):
        assert site.reconnect(grant, token, 0, **changes) == "keep_unknown"
    assert site.hand.job(job_id)["state"] == "queued"
    site.hand.cancel(job_id)
    assert site.reconnect(grant, token, 0) == "keep_unknown"
    assert site.hand.job(job_id)["state"] == "canceled"
