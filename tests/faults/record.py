"""What passed a fault proxy: the only witness of what a coordinator acknowledged that belongs to neither side."""

import gzip
import json
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

_KEPT = (
    "/accept",
    "/events",
    "/artifacts",
    "/complete",
    "/release",
    "/decline",
    "/finish",
    "/sessions",
    "/poll",
    "/heartbeat",
)
_BODIES = ("/accept", "/events", "/artifacts", "/complete", "/release", "/sessions", "/token", "/pairings")


@dataclass(frozen=True)
class Request:
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    raw: bytes

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object of the body, or an empty one."""
        body = self.body
        if self.headers.get("content-encoding") == "gzip":
            try:
                body = gzip.decompress(body)
            except (OSError, EOFError, zlib.error):
                return {}
        return json_object(body)


@dataclass(frozen=True)
class Exchange:
    """A request that reached the coordinator; ``status`` is None when nobody knows how it ended."""

    sent_at: float
    """``time.monotonic`` just before the request was passed on."""
    answered_at: float
    worker: str | None
    method: str
    path: str
    status: int | None
    asked: dict[str, Any]
    answered: dict[str, Any]

    @property
    def granted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def attempt(self) -> str | None:
        """The attempt the path names."""
        parts = self.path.split("/")
        return parts[3] if parts[1:3] == ["v1", "attempts"] and len(parts) > 4 else None

    @property
    def verb(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[1]


class Record:
    """All exchanges of one proxy, the worker each belongs to, and the secrets that passed."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self._exchanges: list[Exchange] = []
        self._by_token: dict[str, str] = {}
        self._by_session: dict[str, str] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Exchange]:
        with self._lock:
            return iter(tuple(self._exchanges))

    def worker_of(self, request: Request) -> str | None:
        """Return whose request this is, as far as it tells."""
        token = request.headers.get("authorization", "").removeprefix("DPoP ")
        if token in self._by_token:
            return self._by_token[token]
        if request.path == "/v1/sessions":
            worker = request.document.get("worker_id")
            return worker if isinstance(worker, str) else None
        parts = request.path.split("/")
        return self._by_session.get(parts[3]) if parts[1:3] == ["v1", "sessions"] and len(parts) > 3 else None

    def add(self, request: Request, sent_at: float, status: int | None, body: bytes) -> None:
        """Note an exchange."""
        worker = self.worker_of(request)
        wanted = any(part in request.path for part in _BODIES)
        answered = json_object(body) if wanted else {}
        self._learn(request, worker, answered)
        if not any(part in request.path for part in _KEPT) and "/uploads/" not in request.path:
            return
        asked = request.document if wanted else {}
        made = Exchange(sent_at, time.monotonic(), worker, request.method, request.path, status, asked, answered)
        with self._lock:
            self._exchanges.append(made)

    def last_contact(self, worker: str) -> float:
        """Return when this worker was last answered with success, or 0."""
        return max((item.answered_at for item in self if item.worker == worker and item.granted), default=0.0)

    def _learn(self, request: Request, worker: str | None, answered: dict[str, Any]) -> None:
        token, session = answered.get("token"), answered.get("session_id")
        self.secrets |= {code for code in (answered.get("device_code"),) if isinstance(code, str)}
        if isinstance(token, str):
            self.secrets.add(token)
            if worker is not None:
                self._by_token[token] = worker
        if isinstance(session, str) and worker is not None:
            self._by_session[session] = worker


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in ``body``, or an empty one."""
    try:
        found: object = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
