"""What the commands say of workers is what the coordinator knows, and a name means the worker that lives."""

import pytest

from app.cli.commands import main
from tests.app.cli.conftest import Answer, Asked, ScriptedServer

DAY_S = 86400.0


def _worker(worker_id: str, **changes: object) -> dict[str, object]:
    worker = {
        "id": worker_id,
        "name": "tower",
        "state": "available",
        "reasons": [],
        "console_mode": "run",
        "local_mode": "run",
        "mode_by": "",
        "mode_seen": True,
        "contact_age_s": 5.0,
        "authorization": {
            "expires_at": "2026-01-31T00:00:00Z",
            "remaining_s": 30 * DAY_S - 0.4,
            "extend_while_healthy": False,
        },
        "job_scopes": ["any"],
        "host": {"os": "Linux", "arch": "x86_64", "hostname": "tower"},
        "version": "0.1.0",
        "credential_store": "file",
        "job": None,
        "rev": 1,
    }
    return {**worker, **changes}


REVOKED = _worker("wrk_old", state="revoked", mode_seen=False)


@pytest.fixture(autouse=True)
def signed_in(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.method == "POST":
            return Answer.of(_worker(asked.path.split("/")[3], console_mode="drain", mode_seen=False))
        return Answer.of({"items": [REVOKED, _worker("wrk_new")], "next": None})

    server.script = answer
    monkeypatch.setenv("STOKER_COORDINATOR", server.url)
    monkeypatch.setenv("STOKER_TOKEN", "token-of-a-person")


def test_a_name_means_the_worker_that_lives_and_not_a_revoked_one_of_the_same_name(server: ScriptedServer) -> None:
    assert main(["worker", "tower", "drain"]) == 0
    assert server.asked[-1].path == "/v1/workers/wrk_new/drain"


def test_an_id_means_exactly_its_worker(server: ScriptedServer) -> None:
    assert main(["worker", "wrk_old", "renew"]) == 0
    assert server.asked[-1].path == "/v1/workers/wrk_old/renew"


def test_a_state_from_before_the_worker_saw_the_order_is_not_told_as_its_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["worker", "tower", "drain"]) == 0
    assert "Until then it is available" in capsys.readouterr().out


def test_a_renewal_is_told_as_long_as_it_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "tower", "renew"]) == 0
    assert "renewed for 30 d." in capsys.readouterr().out


def test_a_revoked_worker_has_no_authorization_and_no_mode_in_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workers"]) == 0
    revoked, alive = [line for line in capsys.readouterr().out.splitlines() if "tower" in line]
    assert revoked.split()[1:4] == ["revoked", "–", "–"]
    assert "left" not in revoked
    assert "left" in alive
