"""A server over real HTTP that answers what a test scripts for a path, else what a subclass finds honest.

Raw bytes can be answered too: pages of a captive portal, half answers, resets.
"""

import asyncio
import base64
import gzip
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from joserfc import jws
from joserfc.jwk import OKPKey

from worker_core.wire.codec import decode, encode
from worker_core.wire.problems import CODES, Problem

NONCE = "nonce-1"


@dataclass
class Seen:
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        raw = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        return json.loads(raw) if raw else None

    def read(self, kind: type[Any]) -> Any:
        return decode(json.dumps(self.json()).encode(), kind)

    def proof(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and verified claims of the DPoP proof."""
        compact = self.headers["dpop"]
        header = json.loads(_unpad(compact.split(".")[0]))
        key = OKPKey.import_key(header["jwk"])
        signed = jws.deserialize_compact(compact, key, algorithms=["Ed25519"])
        return header, json.loads(signed.payload)


@dataclass
class Answer:
    """What to answer; ``raw`` replaces everything and closes the line, ``cut`` sends only so many bytes."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    cut: int | None = None
    ours: bool = True


def message(body: object, status: int = 200, **headers: str) -> Answer:
    return Answer(status, encode(body), headers=headers)


def refusal(code: str, detail: str = "", **members: Any) -> Answer:
    status, title, action, retryable = CODES[code]
    fields: dict[str, Any] = {"action": action, "retryable": retryable, **members}
    problem = Problem(title=title, status=status, code=code, detail=detail, **fields)
    return Answer(status, encode(problem), "application/problem+json")


def html(status: int = 200) -> Answer:
    return Answer(status, b"<html>Log in to the hotel's network</html>", "text/html", ours=False)


Rule = Callable[[Seen], "Answer | Awaitable[Answer | None] | None"]


def _unpad(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class ScriptedServer:
    """Listens on loopback. ``script(method, pattern, *answers)`` overrides the next answers of a path."""

    def __init__(self) -> None:
        self.gen = 1
        self.seen: list[Seen] = []
        self.connections = 0
        self._rules: list[tuple[str, re.Pattern[str], deque[Rule | Answer]]] = []
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def honest(self, seen: Seen) -> Answer:
        """Return the answer to a request that no test scripted."""
        return refusal("not-found")

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._receive, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for line in tuple(self._lines):
            line.transport.abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, method: str, pattern: str, *answers: Rule | Answer) -> None:
        self._rules.append((method, re.compile(pattern), deque(answers)))

    def forget_scripts(self) -> None:
        """Be honest from now on."""
        self._rules.clear()

    def count(self, method: str, pattern: str) -> int:
        return sum(1 for seen in self.seen if seen.method == method and re.fullmatch(pattern, seen.path))

    async def until(self, condition: Callable[[], Any], timeout_s: float = 10.0) -> Any:
        async with asyncio.timeout(timeout_s):
            while not (value := condition()):  # noqa: ASYNC110 - any condition, not only an event
                await asyncio.sleep(0.01)
        return value

    def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._lines.add(writer)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (seen := await _read_request(reader)) is not None:
                self.seen.append(seen)
                if not await self._reply(writer, seen, await self._answer(seen)):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._lines.discard(writer)
            writer.close()

    async def _reply(self, writer: asyncio.StreamWriter, seen: Seen, answer: Answer) -> bool:
        if answer.raw is not None:
            writer.write(answer.raw)
            await writer.drain()
            return False
        head = {"Content-Length": str(len(answer.body)), **answer.headers}
        if answer.body or answer.status != 204:
            head["Content-Type"] = answer.content_type
        if answer.ours:
            head = {"Date": formatdate(usegmt=True), **head, "Stoker-Gen": str(self.gen), "DPoP-Nonce": NONCE}
        lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in head.items())]
        payload = "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if seen.method == "HEAD" else answer.body)
        writer.write(payload[: answer.cut])
        await writer.drain()
        return answer.cut is None

    async def _answer(self, seen: Seen) -> Answer:
        for method, pattern, answers in self._rules:
            if answers and method == seen.method and pattern.fullmatch(seen.path):
                rule = answers.popleft()
                if isinstance(rule, Answer):
                    return rule
                made = rule(seen)
                answer = await made if isinstance(made, Awaitable) else made
                if answer is not None:
                    return answer
        return await self.honest(seen)


async def _read_request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, path, headers, body)
