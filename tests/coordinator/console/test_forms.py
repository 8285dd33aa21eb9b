"""Every form works without JavaScript, acts once, and is refused when another site sends it."""

import http.client
import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import httpx
import pytest

from coordinator.console.jobs import SAMPLE, NotASpec, read_spec_text

PASSWORD = "correct horse battery"
SPEC_JSON = '{"kind":"rl-session","name":"from-json","system":{"simulator":{"entry":"gymnasium:CartPole-v1"}}}'


def fields_of(html: str, action: str) -> dict[str, str]:
    """Return the hidden fields of the form that posts to ``action``."""
    for found in re.finditer(r"<form\b.*?</form>", html, re.S):
        form = found.group()
        if f'action="{action}"' in form or f'formaction="{action}"' in form:
            hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
            return {name: unescape(value) for name, value in hidden}
    raise AssertionError(f"no form posts to {action}")


def submit(client: httpx.Client, page: str, action: str, **values: Any) -> httpx.Response:
    """Open a page, fill in its form and send it."""
    shown = client.get(page)
    assert shown.status_code == 200, shown.text
    return client.post(action, data={**fields_of(shown.text, action), **values})


def after(client: httpx.Client, answer: httpx.Response) -> str:
    """Follow the 303 that every form answers with, and return the page."""
    assert answer.status_code == 303, answer.text
    return client.get(answer.headers["location"]).text


def new_job(client: httpx.Client) -> str:
    answer = submit(client, "/jobs/new", "/jobs", spec=SPEC_JSON)
    return answer.headers["location"].rpartition("/")[2]


def test_nobody_sees_a_page_without_signing_in_and_is_sent_back_afterwards(coordinator: Any) -> None:
    with httpx.Client(base_url=coordinator.url, trust_env=False) as stranger:
        for path in ("/", "/workers", "/pair", "/jobs", "/jobs/new", "/sessions", "/sessions/x/logs"):
            answer = stranger.get(path)
            assert answer.status_code == 303, path
        assert stranger.get("/jobs?state=failed").headers["location"] == "/login?next=/jobs%3Fstate%3Dfailed"
        answer = stranger.post("/login", data={"email": "ada@example.org", "password": PASSWORD, "next": "/jobs"})
        assert answer.headers["location"] == "/jobs"


def test_a_form_that_does_not_come_or_is_endless_is_given_up(start_coordinator: Any, sign_in: Any) -> None:
    live = start_coordinator(body_deadline_s=0.3)
    slow = http.client.HTTPConnection("127.0.0.1", int(live.url.rsplit(":", 1)[1]), timeout=20)
    slow.putrequest("POST", "/login")
    slow.putheader("Content-Length", "100")
    slow.endheaders(b"email=")
    assert slow.getresponse().status == 400
    slow.close()
    with sign_in(live.url) as person:
        assert person.post("/theme", content=b"a=" + b"x" * (5 << 20)).status_code == 413
        assert person.post("/theme", content=b"a=b&" * 65).status_code == 413


def test_a_wrong_password_and_an_unknown_person_get_the_same_answer_after_the_same_time(coordinator: Any) -> None:
    answers: set[str] = set()
    took_s: dict[str, list[float]] = {"ada@example.org": [], "nobody@example.org": []}
    with httpx.Client(base_url=coordinator.url, trust_env=False, timeout=30) as stranger:
        for _ in range(3):
            for email, times in took_s.items():
                began = time.monotonic()
                answer = stranger.post("/login", data={"email": email, "password": "wrong"})
                times.append(time.monotonic() - began)
                assert answer.status_code == 401
                answers.add(re.sub(r'value="[^"]*"|data-now="[^"]*"', "", answer.text))
    assert len(answers) == 1
    assert "E-mail or password is wrong." in answers.pop()
    known, unknown = (min(times) for times in took_s.values())
    assert 1 / 3 < known / unknown < 3


def test_logging_out_ends_the_log_in(coordinator: Any, sign_in: Any) -> None:
    with sign_in(coordinator.url) as person:
        answer = submit(person, "/workers", "/logout")
        assert answer.headers["location"] == "/login"
        assert person.get("/workers").status_code == 303


def test_a_form_without_its_token_or_from_another_site_is_refused(client: httpx.Client) -> None:
    assert client.post("/jobs", data={"spec": SPEC_JSON}).status_code == 403
    fields = fields_of(client.get("/jobs/new").text, "/jobs")
    answer = client.post("/jobs", data={**fields, "spec": SPEC_JSON}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    answer = client.post("/jobs", data={**fields, "spec": SPEC_JSON, "csrf_token": "guess"})
    assert answer.status_code == 403


def test_a_worker_is_approved_by_its_code_in_any_spelling(coordinator: Any, client: httpx.Client) -> None:
    station = coordinator.workstation()
    started = station.start_pairing("ada@example.org", device_name="studio")
    typed = f" {started.user_code.lower().replace('-', ' ')} "
    found = submit(client, "/workers", "/pair", user_code=typed)
    assert found.status_code == 200
    assert started.fingerprint in found.text
    assert 'value="any" checked' not in found.text
    pairing = re.search(r'action="(/pair/[^"]+/approve)"', found.text)
    assert pairing is not None
    fields = fields_of(found.text, pairing.group(1))
    missing = client.post(pairing.group(1), data={**fields, "name": "studio", "authorization_s": "604800"})
    assert missing.status_code == 422
    assert "Tick at least one kind of job" in missing.text
    assert "Compare the four words" in missing.text
    assert re.search(r'value="604800" checked', missing.text)
    fields = fields_of(missing.text, pairing.group(1))
    given = {"name": "studio", "job_scopes": "any", "authorization_s": "604800", "fingerprint_confirmed": "yes"}
    answer = client.post(pairing.group(1), data={**fields, **given})
    assert "studio is approved" in after(client, answer)
    assert station.poll_pairing(started).status_code == 200
    again = client.post(pairing.group(1), data={**fields, **given, "request_id": uuid.uuid4().hex})
    assert "already" in after(client, again)


def test_a_pairing_is_denied(coordinator: Any, client: httpx.Client) -> None:
    station = coordinator.workstation()
    started = station.start_pairing("ada@example.org")
    found = submit(client, "/pair", "/pair", user_code=started.user_code)
    deny = re.search(r'formaction="(/pair/[^"]+/deny)"', found.text)
    assert deny is not None
    answer = client.post(deny.group(1), data=fields_of(found.text, deny.group(1)))
    assert "was denied" in after(client, answer)
    assert station.poll_pairing(started).json()["error"] == "access_denied"


@pytest.mark.parametrize("typed", ["BCDF-GHJK", "BCDF", "AEIO-UUUU", "<script>"])
def test_a_code_that_fits_nothing_says_so_beside_the_field(client: httpx.Client, typed: str) -> None:
    answer = submit(client, "/pair", "/pair", user_code=typed)
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.text
    assert "<script>" not in answer.text.replace('<script src="', "").replace('<script type="module"', "")


def test_an_old_password_is_asked_for_again_and_the_action_goes_on(coordinator: Any, ada: Any, sign_in: Any) -> None:
    worker = coordinator.worker(ada)
    with sign_in(coordinator.url) as person:
        coordinator.forward(400)
        action = f"/workers/{worker.worker_id}/renew"
        asked = submit(person, action, action, authorization_s="7776000")
        assert "Enter your password again" in asked.text
        fields = fields_of(asked.text, action)
        assert fields["authorization_s"] == "7776000"
        wrong = person.post(action, data={**fields, "step_up_password": "nope"})
        assert "That is not your password." in wrong.text
        answer = person.post(action, data={**fields_of(wrong.text, action), "step_up_password": PASSWORD})
        assert "is authorized again" in after(person, answer)
    shown = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert shown["authorization"]["remaining_s"] > 80 * 86400


def test_drain_stop_and_resume_are_asked_for_and_shown_until_the_worker_confirms(
    coordinator: Any, ada: Any, client: httpx.Client
) -> None:
    worker = coordinator.worker(ada)
    base = f"/workers/{worker.worker_id}"
    answer = submit(client, "/workers", f"{base}/drain")
    page = after(client, answer)
    assert "takes no new one" in page
    assert "worker has not confirmed" in page
    assert ada.send("GET", f"/v1{base}").json()["console_mode"] == "drain"
    assert "takes no new one" not in client.get("/workers").text
    assert "may take jobs again" in after(client, submit(client, "/workers", f"{base}/resume"))
    assert "runs nothing now" in client.get(f"{base}/stop").text
    after(client, submit(client, f"{base}/stop", f"{base}/stop"))
    assert ada.send("GET", f"/v1{base}").json()["console_mode"] == "stop"


def test_revoking_asks_for_the_name_and_a_revoked_worker_can_be_removed(
    coordinator: Any, ada: Any, client: httpx.Client
) -> None:
    worker = coordinator.worker(ada)
    base = f"/workers/{worker.worker_id}"
    name = ada.send("GET", f"/v1{base}").json()["name"]
    wrong = submit(client, f"{base}/revoke", f"{base}/revoke", confirm_name="other")
    assert wrong.status_code == 422
    assert "That is not its name" in wrong.text
    assert "is revoked" in after(client, submit(client, f"{base}/revoke", f"{base}/revoke", confirm_name=name))
    assert worker.call("POST", "/v1/poll", {"wait": 0}).json()["code"] == "worker-revoked"
    assert "is removed" in after(client, submit(client, f"{base}/remove", f"{base}/remove"))
    assert worker.worker_id not in client.get("/workers").text


def test_a_job_is_submitted_as_toml_or_json_and_a_second_click_submits_nothing(client: httpx.Client) -> None:
    fields = fields_of(client.get("/jobs/new").text, "/jobs")
    first = client.post("/jobs", data={**fields, "spec": SPEC_JSON})
    second = client.post("/jobs", data={**fields, "spec": SPEC_JSON})
    assert first.status_code == second.status_code == 303
    assert first.headers["location"] == second.headers["location"]
    from_toml = submit(client, "/jobs/new", "/jobs", spec=SAMPLE.replace("\n", "\r\n"))
    page = after(client, from_toml)
    assert "The job is in the queue." in page
    assert "cartpole" in page


def test_a_form_that_was_filled_in_anew_acts_anew(client: httpx.Client) -> None:
    fields = fields_of(client.get("/jobs/new").text, "/jobs")
    first, second, third = (
        client.post("/jobs", data={**fields, "spec": SPEC_JSON.replace("from-json", name)}).headers["location"]
        for name in ("first", "second", "first")
    )
    assert first == third != second
    assert "second" in client.get(second).text


def test_a_wrong_spec_names_each_field_and_keeps_what_was_typed(client: httpx.Client) -> None:
    spec = SAMPLE.replace("cycles = 13", "cycles = 0").replace("simulators = 8", "simulators = 99")
    answer = submit(client, "/jobs/new", "/jobs", spec=spec)
    assert answer.status_code == 422
    assert "training.cycles" in answer.text
    assert "training.simulators" in answer.text
    assert "simulators = 99" in answer.text


@pytest.mark.parametrize(
    ("text", "said"), [("{", "JSON"), ("a = ", "TOML"), ("", "empty"), ("{}", "empty"), ("[" * 9999, "TOML")]
)
def test_text_that_is_no_spec_says_what_it_is_not(text: str, said: str) -> None:
    with pytest.raises(NotASpec, match=said):
        read_spec_text(text)


def test_a_job_is_canceled_and_tried_again(client: httpx.Client) -> None:
    job_id = new_job(client)
    page = after(client, submit(client, f"/jobs/{job_id}", f"/jobs/{job_id}/cancel"))
    assert "is canceled" in page
    page = after(client, submit(client, f"/jobs/{job_id}", f"/jobs/{job_id}/retry", start="checkpoint"))
    assert "in the queue again" in page
    after(client, submit(client, "/jobs", f"/jobs/{job_id}/cancel"))


def test_a_queued_job_says_why_it_waits_and_lists_are_filtered(client: httpx.Client) -> None:
    job_id = new_job(client)
    reason = client.get(f"/jobs/{job_id}").text
    assert re.search(r"available|wait|worker", reason, re.I)
    assert job_id in client.get("/jobs?state=queued").text
    assert job_id not in client.get("/jobs?state=failed").text
    after(client, submit(client, "/jobs", f"/jobs/{job_id}/cancel"))


def test_the_training_sessions_are_those_that_a_worker_took_and_are_counted_as_such(
    client: httpx.Client, session: Any
) -> None:
    job_id = new_job(client)
    page = client.get("/sessions").text
    assert session.job_id in page
    assert job_id not in page
    assert "No training session here" in client.get("/sessions?state=queued").text
    assert 'id="filter-queued" href="/sessions?state=queued">Queued <span class="number">0<' in page
    assert job_id in client.get("/jobs?state=queued").text
    after(client, submit(client, "/jobs", f"/jobs/{job_id}/cancel"))


def test_what_does_not_exist_is_said_on_a_page(client: httpx.Client) -> None:
    for path in ("/jobs/job_none", "/sessions/job_none", "/workers/wrk_none/stop", "/nothing/here"):
        answer = client.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == 404, path
        assert "<h1>Not found</h1>" in answer.text


def test_the_theme_is_remembered_and_rendered_by_the_server(coordinator: Any, sign_in: Any) -> None:
    with sign_in(coordinator.url) as person:
        page = after(person, submit(person, "/jobs", "/theme", theme="dark"))
        assert '<html lang="en" data-theme="dark">' in page


def test_another_account_sees_nothing_of_it(coordinator: Any, session: Any, sign_in: Any) -> None:
    coordinator.account("eve@example.org")
    with sign_in(coordinator.url, "eve@example.org") as eve:
        for tab in ("", "/logs", "/artifacts", "/benchmarks", "/config", "/series?key=train/loss", "/log.txt"):
            assert eve.get(f"/sessions/{session.job_id}{tab}").status_code == 404, tab
        assert session.worker.worker_id not in eve.get("/workers").text


def test_a_static_file_is_kept_for_ever_and_an_old_address_is_gone(client: httpx.Client) -> None:
    page = client.get("/workers").text
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
        answer = client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert client.get("/static/0000000000000000/live.js").status_code == 404


def test_every_page_has_the_strict_policy(client: httpx.Client, session: Any) -> None:
    for path in ("/workers", "/jobs", "/jobs/new", f"/sessions/{session.job_id}", "/pair"):
        headers = client.get(path).headers
        assert "script-src 'self'; style-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_the_pages_of_a_session_show_its_data_without_javascript(client: httpx.Client, session: Any) -> None:
    base = f"/sessions/{session.job_id}"
    charts = client.get(base).text
    assert re.search(r"train/loss.*?not finite", charts, re.S)
    values = client.get(f"{base}/values?key=rollout/ep_rew_mean").text
    assert values.count("<tr>") == 61
    artifacts = client.get(f"{base}/artifacts").text
    assert "policy.safetensors" in artifacts
    assert "22.5" in client.get(f"{base}/benchmarks").text
    assert "CartPole-v1" in client.get(f"{base}/config").text
    assert "update 59" in client.get(f"{base}/log.txt").text


def test_an_artifact_is_downloaded_and_never_shown(client: httpx.Client, session: Any) -> None:
    page = client.get(f"/sessions/{session.job_id}/artifacts").text
    links = re.findall(r'href="(/v1/artifacts/[^"]+)" download="report.html"', page)
    answer = client.get(links[0])
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]


def test_two_clicks_at_once_act_once(client: httpx.Client) -> None:
    job_id = new_job(client)
    after(client, submit(client, f"/jobs/{job_id}", f"/jobs/{job_id}/cancel"))
    action = f"/jobs/{job_id}/retry"
    fields = {**fields_of(client.get(f"/jobs/{job_id}").text, action), "start": "scratch"}
    with ThreadPoolExecutor(2) as clicks:
        answers = list(clicks.map(lambda _: client.post(action, data=fields), range(2)))
    assert [answer.status_code for answer in answers] == [303, 303]
    said = {answer.headers["location"] for answer in answers}
    assert said == {f"/jobs/{job_id}"}
    assert all("stoker_message" in answer.headers["set-cookie"] for answer in answers)
    after(client, submit(client, f"/jobs/{job_id}", f"/jobs/{job_id}/cancel"))
