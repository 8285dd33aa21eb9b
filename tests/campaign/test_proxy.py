"""The fault proxy does what its rules say, and is no more than a wire without them."""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.faults.proxy import FaultProxy
from tests.faults.rules import PORTALS, Rule


class _Echo(ThreadingHTTPServer):
    """Answers with the number of the request and what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[bytes] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """A line that broke under an answer is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, _Echo)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append(body)
        if self.path.endswith("/slow"):
            time.sleep(0.5)
        answer = json.dumps({"n": len(self.server.seen), "token": "secret-token", "next_seq": 2}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in (b"one ", b"two ", b"three"):
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "17")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[_Echo]:
    with _Echo() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def proxy(server: _Echo) -> Iterator[FaultProxy]:
    with FaultProxy() as made:
        made.upstream = server.server_address[1]
        yield made


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=proxy.url, trust_env=False, timeout=5) as made:
        yield made


def test_without_rules_it_is_a_wire(client: httpx.Client, server: _Echo) -> None:
    assert [client.post("/v1/x", content=b"a").json()["n"] for _ in range(3)] == [1, 2, 3]
    assert client.get("/v1/y").text == "one two three"
    assert client.head("/v1/y").headers["content-length"] == "17"
    assert server.seen == [b"a"] * 3


def test_a_lost_answer_has_had_its_effect(client: httpx.Client, proxy: FaultProxy, server: _Echo) -> None:
    proxy.book.put(Rule("drop-reply", paths="/v1/poll$", at_most=1))
    with pytest.raises(httpx.TransportError):
        client.post("/v1/poll", content=b"1")
    assert server.seen == [b"1"]
    assert client.post("/v1/poll", content=b"2").json()["n"] == 2
    assert proxy.book.hits == {"drop-reply": 1}


def test_a_reset_line_never_reaches_the_server(client: httpx.Client, proxy: FaultProxy, server: _Echo) -> None:
    proxy.book.put(Rule("reset"))
    with pytest.raises(httpx.TransportError):
        client.post("/v1/x")
    assert server.seen == []


def test_a_duplicate_arrives_twice(client: httpx.Client, proxy: FaultProxy, server: _Echo) -> None:
    proxy.book.put(Rule("duplicate", count=1))
    assert client.post("/v1/x", content=b"same").json()["n"] == 1
    assert server.seen == [b"same", b"same"]
    proxy.book.put(Rule("duplicate", count=2))
    assert client.post("/v1/x").json()["n"] == 4


def test_an_answer_is_cut_short(client: httpx.Client, proxy: FaultProxy) -> None:
    proxy.book.put(Rule("cut-reply", count=140))
    with pytest.raises(httpx.TransportError):
        client.post("/v1/x")


def test_somebody_else_answers(client: httpx.Client, proxy: FaultProxy, server: _Echo) -> None:
    proxy.book.put(Rule("portal"))
    answers = {(found.status_code, found.content) for found in (client.post("/v1/x") for _ in range(60))}
    assert answers == {(status, body) for status, _, body in PORTALS}
    assert server.seen == []


def test_a_wall_holds_until_it_is_taken_away(client: httpx.Client, proxy: FaultProxy, server: _Echo) -> None:
    proxy.book.put(Rule("blackhole"))
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/x", timeout=0.3)
    assert server.seen == []
    proxy.book.put()
    assert client.post("/v1/x").json()["n"] == 1


def test_a_wall_also_stops_the_answer_that_is_on_its_way(client: httpx.Client, proxy: FaultProxy) -> None:
    threading.Timer(0.2, lambda: proxy.book.put(Rule("blackhole"))).start()
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/slow", timeout=1.0)


def test_a_delay_and_a_trickle_only_cost_time(client: httpx.Client, proxy: FaultProxy) -> None:
    proxy.book.put(Rule("delay", seconds=0.1))
    began = time.monotonic()
    assert client.post("/v1/x").json()["n"] == 1
    assert time.monotonic() - began >= 0.2
    proxy.book.put(Rule("throttle", count=50, seconds=0.01))
    assert client.post("/v1/x").json()["n"] == 2


def test_a_rule_hits_one_worker_only(client: httpx.Client, proxy: FaultProxy) -> None:
    client.post("/v1/sessions", json={"worker_id": "wrk_1"})  # whose answer holds this worker's token
    proxy.book.put(Rule("reset", worker="wrk_1"))
    assert client.post("/v1/poll").json()["n"] == 2
    with pytest.raises(httpx.TransportError):
        client.post("/v1/poll", headers={"Authorization": "DPoP secret-token"})


def test_the_record_tells_what_was_acknowledged_to_whom(client: httpx.Client, proxy: FaultProxy) -> None:
    client.post("/v1/sessions", json={"worker_id": "wrk_1"})
    batch = {"epoch": 3, "first_seq": 0, "events": [{"t": "m"}, {"t": "l"}]}
    headers = {"Authorization": "DPoP secret-token", "Content-Encoding": "gzip"}
    client.post("/v1/attempts/att_1/events", content=gzip.compress(json.dumps(batch).encode()), headers=headers)
    (_, sent) = proxy.record
    assert (sent.worker, sent.attempt, sent.verb, sent.granted, sent.asked) == (
        "wrk_1",
        "att_1",
        "events",
        True,
        batch,
    )
    assert proxy.record.secrets == {"secret-token"}


def test_an_answer_that_never_came_is_noted_as_unknown(client: httpx.Client, proxy: FaultProxy) -> None:
    threading.Timer(0.1, proxy.reset_lines).start()
    with pytest.raises(httpx.TransportError):
        client.post("/v1/attempts/att_1/slow")
    proxy.upstream = None
    with pytest.raises(httpx.TransportError):
        client.post("/v1/attempts/att_1/complete", json={"epoch": 1})
    assert [item.status for item in proxy.record if item.verb == "complete"] == []
