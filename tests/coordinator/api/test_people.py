"""People over HTTP: log-in, cookies, CSRF, step-up, tokens, and secrets that are nowhere in clear."""

import httpx
import pytest

from worker_core.wire.client import TokenView
from worker_core.wire.codec import decode
from worker_core.wire.problems import Problem, ProblemError

PASSWORD = "correct horse battery"


def refusal(response) -> Problem:
    return decode(response.content, Problem)


@pytest.fixture
def browser(coordinator):
    """A browser in which Ada is logged in, with the CSRF token its pages carry."""
    account = coordinator.do(coordinator.services.people.authenticate("ada@example.org", PASSWORD, "10.0.0.1"))
    cookie = coordinator.do(coordinator.services.logins.start(account))
    person = coordinator.do(coordinator.services.logins.person(cookie))
    port = coordinator.url.rsplit(":", 1)[1]
    with httpx.Client(
        base_url=coordinator.url, trust_env=False, verify=False, cookies={f"stoker-{port}": cookie}
    ) as client:
        client.headers["X-CSRF-Token"] = person.csrf
        yield client


def log_in(coordinator, email: str, password: str, **headers: str) -> httpx.Response:
    body = {"email": email, "password": password}
    return httpx.post(f"{coordinator.url}/v1/console/login", json=body, headers=headers, trust_env=False, verify=False)


def test_a_password_gives_a_token_that_does_not_approve(coordinator):
    view = decode(log_in(coordinator, " Ada@Example.org ", PASSWORD).content, TokenView)
    assert view.scopes == ("jobs", "workers")
    bearer = {"Authorization": f"Bearer {view.token}"}
    assert httpx.get(f"{coordinator.url}/v1/workers", headers=bearer, trust_env=False, verify=False).status_code == 200
    lookup = httpx.post(
        f"{coordinator.url}/v1/console/pairings/lookup",
        json={"user_code": "x"},
        headers=bearer,
        trust_env=False,
        verify=False,
    )
    assert refusal(lookup).code == "forbidden"


def test_a_wrong_password_and_an_unknown_email_are_answered_alike(coordinator):
    wrong = refusal(log_in(coordinator, "ada@example.org", "wrong password"))
    unknown = refusal(log_in(coordinator, "nobody@example.org", "wrong password"))
    assert wrong == unknown
    assert wrong.code == "bad-credentials"


def test_too_many_tries_have_to_wait(start_coordinator):
    live = start_coordinator(logins_per_email=3)
    for _ in range(3):
        assert refusal(log_in(live, "ada@example.org", "wrong password")).code == "bad-credentials"
    assert refusal(log_in(live, "ada@example.org", PASSWORD)).code == "rate-limited"
    live.forward(901)
    assert log_in(live, "ada@example.org", PASSWORD).status_code == 200


def test_a_stranger_cannot_lock_the_owner_out(start_coordinator):
    live = start_coordinator(logins_per_email=2)
    people = live.services.people
    for _ in range(2):
        with pytest.raises(ProblemError):
            live.do(people.authenticate("ada@example.org", "wrong password", "203.0.113.9"))
    assert live.do(people.authenticate("ada@example.org", PASSWORD, "198.51.100.7")).email == "ada@example.org"


def test_an_ipv6_host_has_the_tries_of_one_address(start_coordinator):
    live = start_coordinator(logins_per_ip=2)
    people = live.services.people
    codes = []
    for number in range(3):
        with pytest.raises(ProblemError) as refused:
            live.do(people.authenticate(f"{number}@example.org", "wrong password", f"2001:db8::{number}"))
        codes.append(refused.value.code)
    assert codes == ["bad-credentials", "bad-credentials", "rate-limited"]
    assert live.do(people.authenticate("ada@example.org", PASSWORD, "2001:db8:0:1::1")).email == "ada@example.org"


def test_a_page_of_another_site_cannot_log_in(coordinator):
    assert refusal(log_in(coordinator, "ada@example.org", PASSWORD, Origin="https://evil.example")).code == "forbidden"


def test_a_cookie_reads_and_with_the_token_of_its_pages_writes(coordinator, ada, browser):
    worker = coordinator.worker(ada)
    assert browser.get("/v1/workers").status_code == 200
    path = f"/v1/workers/{worker.worker_id}/drain"
    assert browser.post(path, headers={"Origin": coordinator.url}).status_code == 200
    assert browser.post(path, headers={"Origin": coordinator.url.replace("127.0.0.1", "localhost")}).status_code == 200
    assert refusal(browser.post(path, headers={"Origin": "https://evil.example"})).code == "forbidden"
    assert refusal(browser.post(path, headers={"Sec-Fetch-Site": "cross-site"})).code == "forbidden"
    for forged in ("", "guess"):
        assert refusal(browser.post(path, headers={"X-CSRF-Token": forged})).code == "forbidden"


def test_a_password_entered_long_ago_must_be_entered_again(start_coordinator):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    worker = live.worker(ada)
    account = live.do(live.services.people.authenticate("ada@example.org", PASSWORD, "10.0.0.1"))
    cookie = live.do(live.services.logins.start(account))
    csrf = live.do(live.services.logins.person(cookie)).csrf
    cookies = {f"stoker-{live.url.rsplit(':', 1)[1]}": cookie}
    headers = {"X-CSRF-Token": csrf}
    with httpx.Client(base_url=live.url, trust_env=False, verify=False, cookies=cookies, headers=headers) as browser:
        path = f"/v1/workers/{worker.worker_id}/renew"
        assert browser.post(path).status_code == 200
        live.forward(301)
        assert refusal(browser.post(path)).code == "step-up-required"
        assert refusal(browser.post("/v1/console/step-up", json={"password": "wrong one"})).code == "bad-credentials"
        assert browser.post("/v1/console/step-up", json={"password": PASSWORD}).status_code == 204
        assert browser.post(path).status_code == 200
        live.forward(15 * 86400)
        assert refusal(browser.get("/v1/workers")).code == "not-signed-in"


def test_a_log_out_ends_the_cookie(browser):
    response = browser.post("/v1/console/logout")
    assert response.status_code == 204
    assert "Max-Age=0" in response.headers["set-cookie"]
    assert refusal(browser.get("/v1/workers")).code == "not-signed-in"


def test_a_log_out_ends_the_token_it_came_with_and_no_other(coordinator):
    one, other = (coordinator.person("ada@example.org") for _ in range(2))
    assert one.send("POST", "/v1/console/logout").status_code == 204
    assert refusal(one.send("GET", "/v1/workers")).code == "not-signed-in"
    assert other.send("GET", "/v1/workers").status_code == 200


def test_nobody_and_unknown_tokens_are_told_to_sign_in(coordinator):
    for headers in ({}, {"Authorization": "Bearer guess"}, {"Cookie": "stoker-1=x"}):
        response = httpx.get(f"{coordinator.url}/v1/workers", headers=headers, trust_env=False, verify=False)
        assert refusal(response).code == "not-signed-in"


def test_no_secret_stands_in_the_data_folder_in_clear(start_coordinator):
    live = start_coordinator("searched")
    ada = live.person("ada@example.org")
    station = live.workstation()
    started = station.start_pairing(ada.email)
    worker = live.worker(ada)
    token = decode(log_in(live, "ada@example.org", PASSWORD).content, TokenView).token
    account = live.do(live.services.people.authenticate("ada@example.org", PASSWORD, "10.0.0.1"))
    cookie = live.do(live.services.logins.start(account))
    secrets = [PASSWORD, started.device_code, started.user_code, worker.token, token, cookie]
    secrets += [ada.http.headers["authorization"].split()[1], started.user_code.replace("-", "")]
    live.close()
    stored = b"".join(path.read_bytes() for path in live.data.rglob("*") if path.is_file())
    assert b"ada@example.org" in stored
    assert [secret for secret in secrets if secret.encode() in stored] == []


def test_the_host_alone_makes_accounts_and_full_tokens(coordinator):
    path = f"{coordinator.url}/v1/admin/accounts"
    body = {"email": "new@example.org", "password": PASSWORD}
    for headers in ({}, {"Authorization": "Bearer guess"}):
        assert httpx.post(path, json=body, headers=headers, trust_env=False, verify=False).status_code == 404
    key = {"Authorization": f"Bearer {coordinator.services.admin_key}"}
    assert httpx.post(path, json=body, headers=key, trust_env=False, verify=False).status_code == 201
    again = httpx.post(path, json=body, headers=key, trust_env=False, verify=False)
    assert "has an account already" in refusal(again).detail


def test_another_password_ends_whatever_the_old_one_opened(start_coordinator):
    live = start_coordinator()
    by_host = live.person("ada@example.org")
    stolen = decode(log_in(live, "ada@example.org", PASSWORD).content, TokenView).token
    account = live.do(live.services.people.authenticate("ada@example.org", PASSWORD, "10.0.0.1"))
    cookie = live.do(live.services.logins.start(account))
    body = {"email": "ada@example.org", "password": "another one altogether"}
    key = {"Authorization": f"Bearer {live.services.admin_key}"}
    path = f"{live.url}/v1/admin/passwords"
    assert httpx.post(path, json=body, trust_env=False, verify=False).status_code == 404, "for the host alone"
    assert httpx.post(path, json=body, headers=key, trust_env=False, verify=False).status_code == 200
    assert live.do(live.services.logins.person(cookie)) is None
    headers = {"Authorization": f"Bearer {stolen}"}
    answer = httpx.get(f"{live.url}/v1/workers", headers=headers, trust_env=False, verify=False)
    assert refusal(answer).code == "not-signed-in"
    assert by_host.send("GET", "/v1/audit").json()["items"][0]["act"] == "password changed"
    assert refusal(log_in(live, "ada@example.org", PASSWORD)).code == "bad-credentials"
    assert log_in(live, "ada@example.org", "another one altogether").status_code == 200


@pytest.mark.parametrize(
    ("email", "password", "word"), [("no-at", PASSWORD, "e-mail"), ("a@b.example", "short", "8 to 1024")]
)
def test_an_account_that_cannot_be_is_refused_in_words(coordinator, email, password, word):
    key = {"Authorization": f"Bearer {coordinator.services.admin_key}"}
    body = {"email": email, "password": password}
    response = httpx.post(f"{coordinator.url}/v1/admin/accounts", json=body, headers=key, trust_env=False, verify=False)
    assert word in refusal(response).detail
