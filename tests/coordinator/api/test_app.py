"""Every answer: our headers, one form for errors, and limits on what is taken in."""

import gzip
import http.client
import json
import socket
import time
import zlib

import httpx
import psutil
import pytest

from worker_core.wire.codec import decode
from worker_core.wire.problems import Problem


def get(coordinator, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    return httpx.request(method, coordinator.url + path, headers=headers, trust_env=False, verify=False)


@pytest.mark.parametrize("path", ["/v1/meta", "/healthz", "/readyz", "/v1/nothing", "/v1/workers", "/v1/sessions"])
def test_every_answer_says_whose_it_is_and_is_safe_in_a_browser(coordinator, path):
    response = get(coordinator, path)
    assert response.headers["stoker-gen"] == "1"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "server" not in response.headers


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/nothing", 404), ("PUT", "/v1/meta", 405)])
def test_what_does_not_exist_is_a_problem_document(coordinator, method, path, status):
    response = get(coordinator, path, method)
    told = decode(response.content, Problem)
    assert (response.status_code, told.status, told.instance) == (status, status, path)
    assert response.headers["content-type"] == "application/problem+json"
    assert path in told.detail


def test_meta_tells_generation_and_versions(coordinator):
    meta = get(coordinator, "/v1/meta").json()
    assert meta["gen"] == 1
    assert meta["api"] == [1, 1]


def test_a_new_nonce_comes_with_the_refusal(coordinator):
    station = coordinator.workstation()
    response = station.send_once("POST", "/v1/pairings", b"{}", None, {})
    assert decode(response.content, Problem).code == "use-dpop-nonce"
    assert response.headers["dpop-nonce"] == coordinator.services.proofs.nonces.current()


def test_gzip_bodies_are_read(coordinator):
    request = {"email": "ada@example.org", "host": {"os": "L", "arch": "x", "hostname": "h"}, "worker_version": "1"}
    packed = gzip.compress(json.dumps(request).encode())
    headers = {"Content-Encoding": "gzip"}
    station = coordinator.workstation()
    assert station.send("POST", "/v1/pairings", content=packed, headers=headers).status_code == 201
    cut = station.send("POST", "/v1/pairings", content=packed[:-9], headers=headers)
    assert "ends too early" in decode(cut.content, Problem).detail
    plain = station.send("POST", "/v1/pairings", content=b"plain", headers=headers)
    assert "not valid gzip" in decode(plain.content, Problem).detail
    odd = station.send("POST", "/v1/pairings", content=b"{}", headers={"Content-Encoding": "br"})
    assert decode(odd.content, Problem).code == "invalid-request"


def test_a_bomb_is_refused_before_it_is_unpacked(coordinator):
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    blocks = [packer.compress(bytes(16 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)]
    bomb = blocks[0] + 63 * blocks[1]  # 1 GiB; nobody gets as far as its checksum
    assert len(bomb) < 8 << 20
    station = coordinator.workstation()
    station.start_pairing("ada@example.org")
    begun, before = time.monotonic(), psutil.Process().memory_info().rss
    response = station.send("POST", "/v1/pairings", content=bomb, headers={"Content-Encoding": "gzip"})
    assert psutil.Process().memory_info().rss - before < 48 << 20
    assert response.status_code == 413
    assert decode(response.content, Problem).code == "too-large"
    assert time.monotonic() - begun < 10


def test_a_long_body_is_refused_by_its_length(coordinator):
    station = coordinator.workstation()
    response = station.send("POST", "/v1/pairings", content=b" " * ((8 << 20) + 1))
    assert response.status_code == 413


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/pairings", "application/json"),
        ("/v1/pairings/poll", "application/json"),
        ("/v1/console/login", "application/json"),
        ("/login", "application/x-www-form-urlencoded"),
    ],
)
def test_a_stranger_may_send_only_a_little(coordinator, path, kind):
    station = coordinator.workstation()
    body = b'{"email":"' + b"x" * (64 << 10) + b'"}'
    response = station.send("POST", path, content=body, headers={"Content-Type": kind})
    assert response.status_code == 413


def test_a_body_that_does_not_come_is_given_up(start_coordinator):
    live = start_coordinator(body_deadline_s=0.3)
    station = live.workstation()
    station.start_pairing("ada@example.org")
    connection = http.client.HTTPConnection("127.0.0.1", int(live.url.rsplit(":", 1)[1]), timeout=20)
    connection.putrequest("POST", "/v1/pairings")
    connection.putheader("Content-Length", "100")
    connection.putheader("DPoP", station.proof("POST", "/v1/pairings"))
    connection.endheaders(b'{"email":')
    response = connection.getresponse()
    assert response.status == 400
    assert b"did not arrive" in response.read()
    connection.close()


def connect(live):
    return socket.create_connection(("127.0.0.1", int(live.url.rsplit(":", 1)[1])), timeout=20)


def seconds_until_closed(line, drip=b""):
    begun = time.monotonic()
    try:
        while True:
            if drip:
                line.sendall(drip)
            line.settimeout(0.05 if drip else 20)
            try:
                if line.recv(4096) == b"":
                    break
            except TimeoutError:
                assert time.monotonic() - begun < 20, "the connection is held for ever"
    except ConnectionError:
        pass
    return time.monotonic() - begun


@pytest.mark.parametrize(
    "drip", [b"", b"G", b"X-A: b\r\n"], ids=["silence", "a line without end", "headers without end"]
)
def test_a_head_that_does_not_come_is_given_up(start_coordinator, drip):
    live = start_coordinator(body_deadline_s=0.5)
    with connect(live) as line:
        if drip.startswith(b"X"):
            line.sendall(b"GET /v1/meta HTTP/1.1\r\nHost: x\r\n")
        assert seconds_until_closed(line, drip) < 10
    assert get(live, "/v1/meta").status_code == 200


def test_a_second_head_on_a_line_that_was_good_has_the_same_deadline(start_coordinator):
    live = start_coordinator(body_deadline_s=0.5)
    with connect(live) as line:
        line.sendall(b"GET /v1/meta HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in line.recv(65536)
        time.sleep(1.0)  # an idle line is kept: that is what keep-alive is for
        line.sendall(b"GET /v1/meta HTTP/1.1\r\n")
        assert seconds_until_closed(line, b"X-A: b\r\n") < 10


def test_a_head_without_end_does_not_fill_the_memory(start_coordinator):
    live = start_coordinator()
    with connect(live) as line:
        line.sendall(b"GET /v1/meta HTTP/1.1\r\n")
        sent = 0
        try:
            while sent < 64 << 20:
                line.sendall(b"X-Filler: " + b"x" * 8000 + b"\r\n")
                sent += 8012
        except ConnectionError:
            pass
    assert sent < 8 << 20


def test_a_failure_of_ours_is_a_problem_document_without_a_traceback(start_coordinator):
    live = start_coordinator()

    async def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    live.services.workers.list = fail
    response = live.person("ada@example.org").send("GET", "/v1/workers")
    told = decode(response.content, Problem)
    assert (response.status_code, told.code) == (500, "internal")
    assert "secret detail" not in response.text


def test_a_failure_of_ours_is_a_page_for_a_browser(start_coordinator, monkeypatch):
    live = start_coordinator()

    async def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    live.services.logins.person = fail
    page = {"Accept": "text/html,*/*", "Cookie": f"stoker-{live.url.rsplit(':', 1)[1]}=x"}
    with httpx.Client(base_url=live.url, trust_env=False, verify=False, headers=page) as browser:
        shown = browser.get("/workers")
        assert shown.status_code == 500
        assert shown.headers["content-type"].startswith("text/html")
        assert "The coordinator failed" in shown.text
        assert "secret detail" not in shown.text
        assert "script-src 'self'" in shown.headers["content-security-policy"]
        monkeypatch.setattr("coordinator.console.pages.ENVIRONMENT", None)
        assert decode(browser.get("/workers").content, Problem).code == "internal", "the page itself may fail"


def test_small_requests_are_not_held_back_for_40_milliseconds(coordinator):
    with httpx.Client(base_url=coordinator.url, trust_env=False, verify=False) as client:
        client.get("/v1/meta")
        times = []
        for _ in range(20):
            begun = time.perf_counter()
            client.get("/v1/meta")
            times.append(time.perf_counter() - begun)
    assert sorted(times)[len(times) // 2] < 0.03


def test_a_client_that_leaves_in_mid_body_harms_nobody(coordinator):
    port = int(coordinator.url.rsplit(":", 1)[1])
    station = coordinator.workstation()
    station.start_pairing("ada@example.org")
    proof = station.proof("POST", "/v1/pairings")
    head = f"POST /v1/pairings HTTP/1.1\r\nHost: x\r\nDPoP: {proof}\r\nContent-Length: 99\r\n\r\n{{"
    with socket.create_connection(("127.0.0.1", port)) as gone:
        gone.sendall(head.encode())
    assert get(coordinator, "/healthz").text == "ok\n"
