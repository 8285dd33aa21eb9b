"""The client believes only a coordinator, asks again with bounds, and never shows its token."""

import hashlib
import time
from pathlib import Path

import pytest

from app.cli.answers import Patience
from app.cli.client import CoordinatorClient
from app.cli.errors import CliError, NotACoordinator, Unreachable
from tests.app.cli.conftest import Answer, Asked, ScriptedServer
from worker_core.wire.client import ArtifactView
from worker_core.wire.problems import ProblemError

TOKEN = "secret-token-of-a-person"
QUICK = Patience(attempts=4, longest_wait_s=0.05)
META = {"gen": 1, "api": [1, 1], "server_time": "2026-01-01T00:00:00Z", "min_worker_version": "0"}


def _client(server: ScriptedServer, patience: Patience = QUICK) -> CoordinatorClient:
    return CoordinatorClient(server.url, TOKEN, patience=patience)


def _artifact(content: bytes) -> ArtifactView:
    return ArtifactView(
        id="art_1",
        name="policy.safetensors",
        kind="result",
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        step=None,
        attempt=1,
        created_at="",
        state="ready",
    )


@pytest.mark.parametrize(
    "answer",
    [
        Answer.html(),
        Answer.html(403),
        Answer(302, b"", {"Location": "https://login.example"}),
        Answer(200, b"", {}),
        Answer(200, b'{"gen": 1', {"Content-Type": "application/json", "Stoker-Gen": "1"}),
        Answer(200, b"{}", {"Content-Type": "application/json", "Stoker-Gen": "1"}),
        Answer(500, b"oops", {"Content-Type": "text/plain", "Stoker-Gen": "1"}),
    ],
)
def test_whatever_is_not_a_coordinator_s_answer_is_said_to_be_that(server: ScriptedServer, answer: Answer) -> None:
    server.script = [answer]
    with _client(server) as client, pytest.raises(NotACoordinator) as caught:
        client.meta()
    assert server.url in caught.value.what
    assert caught.value.exit_code == 3
    assert len(server.asked) == 1


def test_a_log_in_page_is_told_with_where_it_points(server: ScriptedServer) -> None:
    server.script = [Answer(302, b"", {"Location": "https://login.example"})]
    with _client(server) as client, pytest.raises(NotACoordinator) as caught:
        client.meta()
    assert "https://login.example" in caught.value.why


def test_an_unreachable_coordinator_is_told_within_seconds() -> None:
    began = time.monotonic()
    client = CoordinatorClient("http://127.0.0.1:9", patience=Patience(attempts=3, longest_wait_s=0.2))
    with client, pytest.raises(Unreachable, match="Cannot reach the coordinator at http://127"):
        client.meta()
    assert time.monotonic() - began < 3


def test_a_busy_coordinator_is_asked_again_until_it_answers(server: ScriptedServer) -> None:
    busy = Answer.problem(503, "draining", retryable=True, retry_after_s=0.01)
    server.script = [busy, busy, Answer.of(META)]
    with _client(server) as client:
        assert client.meta().gen == 1
    assert len(server.asked) == 3


def test_a_coordinator_that_stays_busy_is_given_up_with_its_own_words(server: ScriptedServer) -> None:
    server.script = [Answer.problem(503, "draining", retryable=True, detail="It is stopping.")]
    with _client(server) as client, pytest.raises(ProblemError, match="It is stopping"):
        client.meta()
    assert len(server.asked) == QUICK.attempts


def test_a_wait_longer_than_a_command_has_is_told_at_once(server: ScriptedServer) -> None:
    locked = Answer.problem(429, "rate-limited", retryable=True, retry_after_s=900, detail="Try again in 15 minutes.")
    server.script = [locked]
    with _client(server) as client, pytest.raises(ProblemError, match="15 minutes"):
        client.meta()
    assert len(server.asked) == 1


def test_a_refusal_is_not_repeated(server: ScriptedServer) -> None:
    server.script = [Answer.problem(403, "forbidden", detail="Not yours.")]
    with _client(server) as client, pytest.raises(ProblemError, match="Not yours"):
        client.workers()
    assert len(server.asked) == 1


def test_a_repeated_submission_carries_the_same_idempotency_key(server: ScriptedServer) -> None:
    server.script = [Answer.problem(503, "draining", retryable=True), Answer.of({"job_id": "job_1"}, 201)]
    with _client(server) as client:
        assert client.submit("{}") == "job_1"
    first, second = (asked.headers["idempotency-key"] for asked in server.asked)
    assert first == second
    with _client(server) as client:
        client.submit("{}")
    assert server.asked[-1].headers["idempotency-key"] != first


def test_the_token_travels_in_one_header_and_nowhere_else(server: ScriptedServer) -> None:
    server.script = [Answer.of({"items": [], "next": None})]
    with _client(server) as client:
        client.jobs()
    asked = server.asked[0]
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in asked.path
    assert TOKEN not in repr(client)


def test_a_proxy_of_the_environment_does_not_come_between_this_computer_and_itself(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server.script = [Answer.of(META)]
    with _client(server) as client:
        assert client.meta().gen == 1


def test_lists_are_read_to_their_last_page(server: ScriptedServer) -> None:
    server.script = [Answer.of({"items": [], "next": "a b"}), Answer.of({"items": [], "next": None})]
    with _client(server) as client:
        assert client.jobs("queued") == []
    assert [asked.path for asked in server.asked] == ["/v1/jobs?state=queued", "/v1/jobs?state=queued&after=a+b"]


class _UploadServer:
    """Takes chunks, and loses the answer to the first one."""

    def __init__(self) -> None:
        self.received = b""
        self.lost = False

    def __call__(self, asked: Asked) -> Answer:
        if asked.path == "/v1/blobs":
            return Answer.of({"upload": {"id": "upl_1", "offset": 0, "chunk": 4}}, 201)
        if asked.path.endswith("/finish"):
            return Answer.of({})
        if asked.method == "HEAD":
            return self._at(200)
        if int(asked.headers["upload-offset"]) != len(self.received):
            return Answer.problem(409, "mismatching-offset")
        self.received += asked.body
        if not self.lost:
            self.lost = True
            return Answer.problem(503, "draining", retryable=True)
        return self._at(204)

    def _at(self, status: int) -> Answer:
        return Answer(status, b"", {"Stoker-Gen": "1", "Upload-Offset": str(len(self.received))})


def test_an_upload_goes_on_where_it_ended_when_an_answer_is_lost(server: ScriptedServer) -> None:
    takes = _UploadServer()
    server.script = takes
    with _client(server) as client:
        sent = client.upload("code", b"0123456789")
    assert takes.received == b"0123456789"
    assert sent.sha256 == hashlib.sha256(b"0123456789").hexdigest()
    assert sum(asked.method == "HEAD" for asked in server.asked) == 1


def test_content_the_coordinator_has_is_not_sent_again(server: ScriptedServer) -> None:
    server.script = [Answer.of({"exists": True})]
    with _client(server) as client:
        assert client.upload("code", b"known").size == 5
    assert [asked.path for asked in server.asked] == ["/v1/blobs"]


def test_a_download_appears_whole(server: ScriptedServer, tmp_path: Path) -> None:
    server.script = [Answer(200, b"weights", {"Stoker-Gen": "1", "Content-Type": "application/octet-stream"})]
    with _client(server) as client:
        client.download(_artifact(b"weights"), tmp_path / "policy")
    assert (tmp_path / "policy").read_bytes() == b"weights"
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_a_damaged_download_leaves_no_file(server: ScriptedServer, tmp_path: Path) -> None:
    server.script = [Answer(200, b"other", {"Stoker-Gen": "1", "Content-Type": "application/octet-stream"})]
    with _client(server) as client, pytest.raises(CliError, match="damaged"):
        client.download(_artifact(b"weights"), tmp_path / "policy")
    assert list(tmp_path.iterdir()) == []


def test_a_worker_is_found_by_name_or_refused_by_name(server: ScriptedServer) -> None:
    server.script = [Answer.of({"items": [], "next": None})]
    with _client(server) as client, pytest.raises(CliError, match="no worker 'ghost'"):
        client.worker("ghost")
