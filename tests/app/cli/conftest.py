"""A scripted HTTP server: what a coordinator, a proxy or a stranger might answer."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

GENERATION = {"Stoker-Gen": "1"}


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """One answer to give."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: {**GENERATION, "Content-Type": "application/json"})

    @classmethod
    def of(cls, document: object, status: int = 200) -> "Answer":
        return cls(status, json.dumps(document).encode())

    @classmethod
    def problem(cls, status: int, code: str, **members: object) -> "Answer":
        document = {"title": code, "status": status, "code": code, "retryable": False, **members}
        headers = {**GENERATION, "Content-Type": "application/problem+json"}
        return cls(status, json.dumps(document).encode(), headers)

    @classmethod
    def html(cls, status: int = 200) -> "Answer":
        return cls(status, b"<html>Please sign in to the hotel</html>", {"Content-Type": "text/html"})


class ScriptedServer:
    """Answers in the order of its script; the last answer is repeated. A script may also be a function."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.script: list[Answer] | Callable[[Asked], Answer] = [Answer()]
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = server._next(Asked(self.command, self.path, headers, body))
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)

            do_GET = do_POST = do_PATCH = do_HEAD = do_DELETE = _answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _next(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if callable(self.script):
            return self.script(asked)
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.end()


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the home, the log-in or the settings of the person who runs it."""
    for name in ("STOKER_COORDINATOR", "STOKER_TOKEN", "STOKER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STOKER_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("STOKER_CREDENTIAL_STORE", "file")
