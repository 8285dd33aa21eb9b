"""What the console shows and asks where workers get no jobs until a person decides, and the history of it all."""

from typing import Any

import pytest
from sqlalchemy import update

from coordinator.storage.schema import worker as worker_table
from tests.coordinator.console.test_forms import PASSWORD, after, fields_of, submit
from worker_core.wire.ids import new_id


@pytest.fixture
def stage(start_coordinator: Any, sign_in: Any) -> Any:
    """A coordinator with one connected worker, and a signed-in page."""
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    with sign_in(live.url) as page:
        yield live, worker, page


def raise_conflict(live: Any, worker: Any) -> None:
    twin = live.workstation()
    twin.key, twin.worker_id = worker.key, worker.worker_id
    answer = twin.try_connect(instance_id=new_id("ins"), prev_instance_ids=("ins_old",), boot_id="other")
    assert answer.json()["code"] == "credential-conflict"


def test_a_conflict_is_explained_and_kept_after_the_password(stage: Any) -> None:
    live, worker, ada = stage
    raise_conflict(live, worker)
    page = ada.get("/workers").text
    assert "needs attention" in page
    assert "A machine that knows nothing of the present connection used the same credential" in page
    assert "Neither gets jobs until you decide" in page
    live.forward(400)
    action = f"/workers/{worker.worker_id}/keep"
    asked = submit(ada, action, action)
    assert "Enter your password again" in asked.text
    again = {**fields_of(asked.text, action), "step_up_password": PASSWORD}
    done = after(ada, ada.post(action, data=again))
    assert "stays. It changes its key" in done
    assert "You chose Keep" in done


def test_after_a_restore_one_button_lets_all_work_again(stage: Any) -> None:
    live, _, ada = stage
    held = update(worker_table).values(confirm_at=1.0)
    live.do(live.services.db.write(lambda conn: conn.execute(held).rowcount))
    page = ada.get("/workers").text
    assert "This coordinator was restored from a backup" in page
    done = after(ada, submit(ada, "/workers", "/workers/confirm"))
    assert "may have jobs again" in done
    assert "restored from a backup" not in done


def test_the_history_is_a_page_and_shows_names_as_text(stage: Any) -> None:
    live, worker, ada = stage
    live.person("ada@example.org").send("POST", f"/v1/workers/{worker.worker_id}/drain", {"reason": "<b>why</b>"})
    page = ada.get("/history").text
    assert "drained" in page
    assert "&lt;b&gt;why&lt;/b&gt;" in page
    assert "approved" in page
    assert ada.get("/history?before=1").text.count("Nothing has been done yet") == 1
    assert ada.get("/history?before=x").status_code == 400


def test_wrong_codes_are_told_on_the_workers_page_for_a_day(stage: Any) -> None:
    live, _, ada = stage
    for letter in "BCDFG":
        submit(ada, "/pair", "/pair", user_code=letter * 8)
    page = ada.get("/workers").text
    assert "Wrong pairing codes were typed" in page
    assert "Too many wrong codes were typed by ada@example.org" in page
    live.forward(86_400)
    assert "Wrong pairing codes were typed" not in ada.get("/workers").text


def test_while_pairing_is_switched_off_the_form_says_for_how_long(start_coordinator: Any, sign_in: Any) -> None:
    live = start_coordinator(wrong_codes_global_hour=2)
    with sign_in(live.url) as ada:
        for letter in "BC":
            submit(ada, "/pair", "/pair", user_code=letter * 8)
        page = ada.get("/pair").text
        assert "Pairing is switched off" in page
        assert "Pairing was switched off" in ada.get("/workers").text


def test_the_form_says_why_nothing_is_ticked(stage: Any) -> None:
    live, _, ada = stage
    started = live.workstation().start_pairing("ada@example.org")
    found = submit(ada, "/pair", "/pair", user_code=started.user_code)
    assert "Nothing is ticked, on purpose" in found.text
    assert 'name="job_scopes" value="any">' in found.text
